"""How the brokers start that tests start themselves: code is compiled once instead of twice, classes come from an
archive of the JVM's own making, memory is collected by one thread. A start takes 1.3 s of processor time instead of
3.4 s, and the little that most tests ask of a broker half of what it took. What a broker does is the same. Those that
the command line starts, in the tests of `enrich dev`, have the options that users' brokers have."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from enrich.dev.servers import java, kafka
from enrich.dev.servers.ports import choose
from enrich.dev.servers.server import Command, Home, Prepare
from enrich.jars import Report, jars
from enrich.kafka import Connection, Topics, new_admin_client
from tests.support.class_archive import QUICK, with_archive
from tests.support.waiting import wait_until


def make_brokers_quick() -> None:
    """Those that this process will start."""
    equip = kafka.Kafka.equip

    def equip_quick(self: kafka.Kafka, report: Report | None) -> Prepare:
        equipped = equip(self, report)  # first, since it may download what the archive is made with
        if not set(QUICK) <= set(java.FLAGS):
            java.FLAGS = (*java.FLAGS, *_options())  # type: ignore[assignment] # of whatever length
        return equipped

    setattr(kafka.Kafka, "equip", equip_quick)  # noqa: B010 - of all brokers, whoever starts them


@contextmanager
def shared_brokers() -> Iterator[None]:
    """Those that are started inside the block may stand still for minutes (`brokers_away`), and then go on at once.

    A broker whose session has ended loads all its partitions anew. With the thousands that a whole run makes this took
    it half a minute and more, in which it answered nobody, and the next tests failed. What is never killed needs no
    short session.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(kafka._SETTINGS, "broker.session.timeout.ms", "120000")
        yield


@cache
def _options() -> tuple[str, ...]:
    """The first call of a checkout makes the archive, which takes a quarter of a minute."""
    made_for = str(jars("kafka")).encode() + Path(__file__).read_bytes()
    return (*QUICK, *with_archive("tests.support.kafka.quick_broker", made_for))


def _load_what_brokers_load(options: str, folder: Path) -> None:
    """A topic, a group that reads it, transactions."""
    folder /= "broker"
    folder.mkdir()
    broker, controller = choose(2, set())
    home = Home(folder, {"broker": broker, "controller": controller}, "MkU3OEVBNTcwNTJENDM2Qg")
    server = kafka.Kafka()

    def started(command: Command) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(command.argv, env={**os.environ, **command.environment}, cwd=folder)

    def run(command: Command) -> None:
        assert started(command).wait(60) == 0

    command = server.equip(None)(home, run)
    java_, *words = command.argv
    running = started(Command((java_, *QUICK, *shlex.split(options), *words), command.environment))
    try:
        wait_until(lambda: server.answers(home), what="the broker")
        _use({"bootstrap.servers": server.address(home)})
        running.terminate()
        running.wait(120)
    finally:
        running.kill()
        running.wait()


def _use(connection: Connection) -> None:
    topic = "classes"
    Topics(new_admin_client(connection)).create(topic, partitions=2)
    producer = Producer({**connection, "transactional.id": topic})
    producer.init_transactions(60)
    consumer = Consumer({**connection, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    for _ in range(2):
        producer.begin_transaction()
        producer.produce(topic, b"value", b"key")
        producer.commit_transaction(30)
        wait_until(lambda: consumer.poll(1.0), what="a record")
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 30
        )
        producer.commit_transaction(30)
    consumer.commit(asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    _load_what_brokers_load(sys.argv[1], Path(sys.argv[2]))
