"""The audit of a day, from topics with real records. Nodes are played, so that they can say what is not so."""

import json
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.tally import Tally
from enrich.tally.origins import Read
from enrich.verdict import minute_text
from tests.support.commands import Done, enrich_process, lines
from tests.support.kafka.topics import delete_records
from tests.support.observe.observing import World, observing
from tests.support.spark.quick_jvm import quick_jvm
from tests.support.waiting import GUARD_S

NewWorld = Callable[..., World]


def audit(world: World, *options: object) -> Done:
    """In a process of its own, as the command becomes a program."""
    quick = ["--conf", f"spark.driver.extraJavaOptions={quick_jvm()}", "--conf", "spark.sql.shuffle.partitions=2"]
    with enrich_process("observe", "audit", "-c", world.file, *options, *quick) as process:
        out, err = process.communicate(timeout=GUARD_S)
        return Done(process.returncode, out, err)


class Records:
    """Writes what the nodes of a world would have written."""

    def __init__(self, world: World, servers: str) -> None:
        self._world = world
        self._servers = servers
        self._producer = Producer({"bootstrap.servers": servers})

    def came_in(self, count: int, time_ms: int) -> None:
        for number in range(count):
            headers: list[tuple[str, str | bytes | None]] = [("enrich.event_time", str(time_ms))]
            self._producer.produce(self._world.raw, b'{"id":%d}' % number, headers=headers, partition=0)
        assert self._producer.flush(GUARD_S) == 0

    def went(self, topic: str, offsets: Iterable[int], sender: str = "") -> None:
        """`sender`: of dead letters."""
        for offset in offsets:
            headers: list[tuple[str, str | bytes | None]] = [("enrich.origin", f"{self._world.raw}/0/{offset}")]
            key = f"{self._world.out}/0/{offset}/{sender}" if sender else None
            self._producer.produce(topic, b"{}", key, headers=headers, partition=0)
        assert self._producer.flush(GUARD_S) == 0

    def aborted(self, topic: str, count: int, time_ms: int) -> None:
        """No reader of committed records ever sees them."""
        headers: list[tuple[str, str | bytes | None]] = [("enrich.event_time", str(time_ms))]
        with closing(TransactionalProducer({"bootstrap.servers": self._servers}, f"{topic} aborted")) as producer:
            producer.start()
            with suppress(KeyboardInterrupt), producer.transaction():
                for _ in range(count):
                    producer.client.produce(topic, b"{}", headers=headers, partition=0)
                producer.client.flush(GUARD_S)
                raise KeyboardInterrupt

    def has_read(self, group: str, topic: str, until: int) -> None:
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, until)], asynchronous=False)
        consumer.close()


def test_what_the_topics_have_not_is_lost_whatever_the_nodes_say(new_world: NewWorld, tmp_path: Path, cluster) -> None:
    world, minute = new_world(), int(time.time()) // 60 - 5
    name, servers = world.name, cluster.connection["bootstrap.servers"]
    records = Records(world, servers)
    lost_at_first, dropped, denied, dead, waits = 3, 20, 30, 40, 99
    records.came_in(100, minute * 60_000 + 30_000)
    records.aborted(world.raw, 5, minute * 60_000 + 30_000)
    after_first = [offset for offset in range(100) if offset != lost_at_first]
    # Some of them twice, as after a restart.
    records.went(world.mid, [*after_first, *range(10, 15)])
    after_second = [offset for offset in after_first if offset not in (dropped, denied)]
    records.went(world.out, after_second)
    world.topics.create(f"{name}.acme.dlq")
    records.went(f"{name}.acme.dlq", [dead], f"{name}.expel.acme/an-id")
    records.went(f"{name}.acme.dlq", [50, 51], f"{name}.expel.acme2/an-id")  # another one has the same DLQ
    records.went(f"{name}.acme.dlq", [52], "other.expel.acme")  # and another pipeline
    for group, topic, until in (
        (f"enrich.{name}.first", world.raw, 100),
        (f"enrich.{name}.second", world.mid, len(after_first) + 5),
        (f"enrich.expel.{name}.acme", world.out, len(after_second) - 1),  # the last one, 99, is not read yet
    ):
        records.has_read(group, topic, until)
    # The nodes say the same, but that the second claims to have passed on what is in no topic.
    missing = {"first": [lost_at_first], "second": [dropped], "acme": [dead, waits]}
    world.goes_on_at(minute)
    world.chain(minute, range(100), lost=missing)
    world.say("first", reads=[Read(world.raw, 0, 0, 100)])
    said = Tally("", minute, dropped=world.of([dropped]))
    world.say("second", said, reads=[Read(world.mid, 0, 0, len(after_first) + 5)])
    said = Tally("", minute, dead=world.of([dead]), waiting=world.of([waits]))
    world.say("acme", said, reads=[Read(world.out, 0, 0, len(after_second))])
    world.alive()
    with observing(world.file):
        assert world.settled(minute).total("lost") == 1
    day = minute_text(minute)[:10]
    found = audit(world, "--day", day, "--json")
    assert found.returncode == 1, found.stderr
    (told,) = [each for each in lines(found) if each["minute"] == minute_text(minute)]
    assert (told["in"], told["lost"], told["lost_origins"]) == (100, 2, [f"{world.raw}/0/3", f"{world.raw}/0/30"])
    first, second, acme = told["hops"]
    assert (first["in"], first["out"], first["lost"]) == (100, 99, 1)
    assert (second["in"], second["out"], second["dropped"], second["denied"]) == (99, 97, 1, 1)
    assert (acme["in"], acme["dead"], acme["waiting"], acme["out"]) == (97, 1, 1, 95)
    assert told["verdict"] == {"in": 100, "lost": 1}
    assert told["differences"] == [f"lost, and the verdict does not say so: 1 events: {world.raw}/0/30"]
    # With what the endpoint has, its hop is no matter of belief either.
    receipts = tmp_path / "receipts"
    receipts.write_text(f"{world.raw}/0/0-59\n{world.raw}/0/60-89,{world.raw}/0/91-98\n")
    people = audit(world, "--day", day, "--delivered", receipts)
    assert people.returncode == 1
    assert f"lost: {world.raw}/0/3, {world.raw}/0/30, {world.raw}/0/90\n" in people.stdout


def test_minutes_in_which_expel_was_told_of_events_are_not_compared_with_those_in_which_they_happened(
    new_world: NewWorld, cluster
) -> None:
    """Where events come in at a route of expel, nobody says of which minute they are."""
    world, minute = new_world(), int(time.time()) // 60 - 5
    document = json.loads(world.file.read_text())
    document["expel"]["acme"]["topic"] = world.raw
    world.file.write_text(json.dumps({key: each for key, each in document.items() if key not in ("ingest", "stages")}))
    records = Records(world, cluster.connection["bootstrap.servers"])
    records.came_in(10, minute * 60_000 + 30_000)
    records.has_read(f"enrich.expel.{world.name}.acme", world.raw, 10)
    world.goes_on_at(minute)
    said = Tally("", None, world.of(range(10)), world.of(range(10)))
    world.say("acme", said, at_ms=(minute + 1) * 60_000 + 5_000, reads=[Read(world.raw, 0, 0, 10)])
    world.alive()
    with observing(world.file):
        assert (world.settled(minute).came, world.settled(minute + 1).came) == (0, 10)
    found = audit(world, "--day", minute_text(minute)[:10], "--json")
    told = [(each["minute"], each["in"], each["verdict"], each["differences"]) for each in lines(found)]
    assert (found.returncode, told) == (0, [(minute_text(minute), 10, None, [])]), found.stderr


def test_it_says_what_it_cannot_audit(new_world: NewWorld, tmp_path: Path, cluster) -> None:
    world = new_world()
    world.alive()
    # Tallies are kept for a shorter time than events, and say alone what a stage has dropped.
    tallies = f"{world.name}.tallies"
    delete_records(cluster.connection, tallies, world.topics.end_offsets(tallies))
    receipts = tmp_path / "receipts"
    receipts.write_text("plays.raw/0/1\nplays.raw/x\n")
    today = minute_text(int(time.time()) // 60)[:10]
    for options, code, said in (
        (["--day", "2999-01-01"], 2, "is yet to come"),
        (["--day", "yesterday"], 2, "expected a day such as 2026-01-31"),
        (["--day", today, "--delivered", str(receipts)], 2, "line 2"),
        (["--day", today, "--route", "none"], 2, "no way through the pipeline"),
        (["--day", today], 2, f"topic {tallies} has not kept the beginning of that day"),
    ):
        found = audit(world, *options)
        assert (found.returncode, said in found.stderr) == (code, True), found.stderr
        assert "Traceback" not in found.stderr
