"""Ingest, expel and the observer are real, and are killed under load. The node between them is the test's, so that it
can lose what it is told to: exactly that must be named."""

import contextlib
import json
import threading
import time
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from enrich.kafka import Topics, new_admin_client
from enrich.kafka.records import headers_of
from enrich.tally import Node, NodeKind, Origins, Report, Tally, encoded, key_of, minute_of
from enrich.tally.origins import Read
from enrich.verdict import MinuteVerdict, State
from enrich.verdict.minute import origins_of
from tests.support.beside import beside
from tests.support.edge.expel import Endpoint
from tests.support.edge.ingesting import Ingest, sent, started
from tests.support.kafka.topics import Cluster
from tests.support.observe.observing import observing, verdicts_in
from tests.support.paged_program import PagedProgram, program
from tests.support.processes import kill
from tests.support.seed import random_source, rounds
from tests.support.waiting import wait_until

PARTITIONS = 3
NAME = "chained"
RAW, OUT = f"{NAME}.raw", f"{NAME}.out"


class LossyNode:
    """A stage that reads everything, says so, and does not pass on what it loses."""

    def __init__(self, servers: str, source: Random) -> None:
        self.lost: set[tuple[str, int, int]] = set()
        self._servers = servers
        self._source = source

    def run(self, stopping: threading.Event) -> None:
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "x", "auto.offset.reset": "earliest"})
        producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 5})
        consumer.assign([TopicPartition(RAW, partition, 0) for partition in range(PARTITIONS)])
        sequence = 0
        while not stopping.is_set():
            messages = [message for message in consumer.consume(500, 0.2) if message.error() is None]
            if messages:
                sequence += 1
                self._pass_on(messages, producer, sequence)
        consumer.close()

    def _pass_on(self, messages: list[Message], producer: Producer, sequence: int) -> None:
        came: dict[tuple[int, int], list[int]] = {}
        went: dict[tuple[int, int], list[int]] = {}
        ends: dict[int, tuple[int, int]] = {}
        for message in messages:
            place = int(message.partition() or 0), int(message.offset() or 0)
            time_header = dict(headers_of(message))["enrich.event_time"] or b""
            minute = minute_of(int(time_header))
            first, _ = ends.get(place[0], (place[1], 0))
            ends[place[0]] = first, place[1] + 1
            came.setdefault((minute, place[0]), []).append(place[1])
            if self._source.random() < 0.005:
                self.lost.add((RAW, *place))
                continue
            went.setdefault((minute, place[0]), []).append(place[1])
            origin = f"{RAW}/{place[0]}/{place[1]}".encode()
            own: list[tuple[str, str | bytes | None]] = [("enrich.origin", origin), ("enrich.event_time", time_header)]
            producer.produce(OUT, message.value(), headers=own, partition=place[0])
            if self._source.random() < 0.01:  # and once more, as a stage does that begins a batch again
                producer.produce(OUT, message.value(), headers=own, partition=place[0])
        assert producer.flush(60) == 0
        tallies = [
            Tally("", minute, _of(came, minute), _of(went, minute)) for minute in sorted({minute for minute, _ in came})
        ]
        reads = [Read(RAW, partition, first, following) for partition, (first, following) in ends.items()]
        node = Node(NAME, NodeKind.stage, "between")
        report = Report(node, "lossy", sequence, time.time_ns() // 10**6, tallies, reads)
        for record in encoded(report):
            producer.produce(f"{NAME}.tallies", record, key_of(report))
        assert producer.flush(60) == 0


def _of(some: dict[tuple[int, int], list[int]], minute: int) -> Origins:
    found = Origins()
    for (own, partition), offsets in some.items():
        if own == minute:
            found |= Origins.of_offsets(RAW, partition, offsets)
    return found


def config(folder: Path, servers: str, endpoint: Endpoint) -> Path:
    source = {"topic": RAW, "format": "json", "schema": "id bigint"}
    http = {"url": endpoint.url(), "allow_private": True, "timeout": "2s"}
    entry = {"listen": "127.0.0.1:0", "path": "/v1", "topic": RAW, "format": "json", "event_time": "ts"}
    route = {"topic": OUT, "to": {"http": http}, "retries": ["1s"], "local": {"tries": 1}}
    document = {
        "name": NAME,
        "kafka": {"bootstrap_servers": servers},
        "state_dir": str(folder / "state"),
        "pages": dict.fromkeys(("ingest", "expel", "retrier"), "127.0.0.1:0"),
        "ingest": {"plays": entry},
        "stages": {"between": {"source": source, "sink": {"topic": OUT}}},
        "expel": {"acme": route},
        "observe": {"listen": "127.0.0.1:0", "loss": {"settle": "15s", "alarm": "0.1%"}},
    }
    file = folder / "chain.yaml"
    file.write_text(json.dumps(document))
    return file


def edge(file: Path, role: str) -> AbstractContextManager[PagedProgram]:
    return program(PagedProgram, ["edge_service", role], file)


class Sender:
    """A hundred events in each request, some of them a little late."""

    def __init__(self, source: Random) -> None:
        self.entry: Ingest | None = None
        self.acknowledged = 0
        self._source = source

    def run(self, stopping: threading.Event) -> None:
        number = 0
        while not stopping.wait(0.1):
            now_ms = time.time_ns() // 10**6
            events = [{"id": number + k, "ts": now_ms - self._source.choice([0, 0, 0, 2_000])} for k in range(100)]
            number += 100
            with contextlib.suppress(Exception):  # it was killed: what it has not acknowledged may be there or not
                if self.entry is not None and sent(self.entry.url("plays"), json.dumps(events)).status < 300:
                    self.acknowledged += 100


def has_more(endpoint: Endpoint, count: int) -> bool:
    return endpoint.delivered.total() > count


def newest(servers: str) -> dict[int, MinuteVerdict]:
    return {verdict.minute: verdict for verdict in verdicts_in(servers, NAME)}


def test_whatever_is_killed_exactly_what_was_lost_is_named(cluster: Cluster, tmp_path: Path) -> None:
    servers, source = cluster.connection["bootstrap.servers"], random_source("a lossy chain")
    topics = Topics(new_admin_client({"bootstrap.servers": servers}))
    for topic in (RAW, OUT):
        topics.create(topic, partitions=PARTITIONS)

    def status(ids: list[int]) -> int:
        return 503 if source.random() < 0.05 else 200

    with Endpoint(status) as endpoint, ExitStack() as held:
        file = config(tmp_path, servers, endpoint)
        node, sender = LossyNode(servers, source), Sender(source)
        observer = held.enter_context(observing(file))
        observer.until_ready()  # it judges from the minute on in which it began
        began = int(time.time()) // 60
        held.enter_context(edge(file, "retrier"))
        with beside(node.run):
            with beside(sender.run):
                for _ in range(rounds(2, 40)):
                    entry, expel = held.enter_context(started(file)), held.enter_context(edge(file, "expel"))
                    entry.until_ready()
                    sender.entry, before = entry, endpoint.delivered.total()
                    wait_until(partial(has_more, endpoint, before + 2_000), deadline_s=120, what="events")
                    for process in source.sample([entry.process, expel.process, observer.process], 3):
                        kill(process.pid)
                    observer = held.enter_context(observing(file))
            sender.entry = None
            entry = held.enter_context(started(file))
            entry.until_ready()
            held.enter_context(edge(file, "expel"))
            ended = int(time.time()) // 60
            whole = sum(topics.end_offsets(RAW).values())
            assert whole >= sender.acknowledged > 1_000

            def all_settled() -> dict[int, MinuteVerdict] | None:
                found = newest(servers)
                is_done = [
                    (verdict := found.get(minute)) is not None
                    and verdict.state is State.SETTLED
                    and not verdict.total("waiting")
                    for minute in range(began, ended + 1)
                ]
                came = sum(verdict.came for verdict in found.values())
                return found if all(is_done) and came >= whole else None

            found = wait_until(all_settled, deadline_s=240, what="verdicts on all minutes")
    assert found is not None
    named = Origins()
    for verdict in found.values():
        assert all(not hop.lost for hop in verdict.hops if hop.kind != "stage"), verdict
        named |= origins_of(verdict.named("lost")[0])
    assert named == Origins.of_ranges([(*place, place[-1]) for place in node.lost])
    assert sum(verdict.came for verdict in found.values()) == whole
    # What the endpoint refused in all tries is dead, and not lost.
    dead = sum(verdict.total("dead") for verdict in found.values())
    assert sum(verdict.went for verdict in found.values()) + dead == whole - len(node.lost)
    assert node.lost, "the test shows nothing"
