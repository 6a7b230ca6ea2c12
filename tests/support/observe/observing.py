"""A pipeline whose nodes are played by the test, which says what they would say, as of any time; an observer judges."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from enrich.kafka import Topics, new_admin_client, read_topic
from enrich.tally import Node, NodeKind, Origins, Report, Tally, encoded, key_of
from enrich.tally.origins import Read
from enrich.verdict import MinuteVerdict, decoded
from enrich.verdict.topic import CHECKPOINT, is_verdict
from tests.support.paged_program import PagedProgram, program
from tests.support.waiting import GUARD_S, wait_until

RAW, MID, OUT = "raw", "mid", "out"


class World:
    """Ingest `plays`, the stages `first` and `second`, and the expel route `acme`, one behind the other."""

    def __init__(self, folder: Path, servers: str, name: str, **observe: Any) -> None:
        self.name = name
        self.topics = Topics(new_admin_client({"bootstrap.servers": servers}))
        self.servers = servers
        self._producer = Producer({"bootstrap.servers": servers})
        self._said = 0
        self.file = folder / f"{name}.yaml"
        self.raw, self.mid, self.out = (f"{name}.{topic}" for topic in (RAW, MID, OUT))
        schema = {"format": "json", "schema": "id bigint"}
        page = {"listen": "127.0.0.1:0", "loss": {"settle": "30s"}}
        document = {
            "name": name,
            "kafka": {"bootstrap_servers": servers},
            "state_dir": str(folder / "state"),
            "ingest": {"plays": {"listen": "127.0.0.1:0", "path": "/plays", "topic": self.raw, "format": "json"}},
            "stages": {
                "first": {"source": {"topic": self.raw, **schema}, "sink": {"topic": self.mid}},
                "second": {
                    "source": {"topic": self.mid, **schema},
                    "routes": [{"name": "acme", "when": "id > 0", "topic": self.out}],
                    "otherwise": "drop",
                },
            },
            "expel": {
                "acme": {"topic": self.out, "to": {"http": {"url": "http://127.0.0.1:9/", "allow_private": True}}}
            },
            "pages": {"ingest": "127.0.0.1:0", "expel": "127.0.0.1:0", "retrier": "127.0.0.1:0"},
            "observe": page | observe,
        }
        self.file.write_text(json.dumps(document))
        for topic in (self.raw, self.mid, self.out):
            self.topics.create(topic)
        # What the brokers had when is the test's to say.
        self.topics.create(f"{name}.tallies", config={"message.timestamp.type": "CreateTime"})
        self.nodes = {
            "plays": Node(name, NodeKind.ingest, "plays"),
            "first": Node(name, NodeKind.stage, "first"),
            "second": Node(name, NodeKind.stage, "second"),
            "acme": Node(name, NodeKind.expel, "acme"),
        }
        self.way = "plays > first > second.acme > acme"

    def of(self, offsets: Iterable[int]) -> Origins:
        some = sorted(offsets)
        return Origins.of_offsets(self.raw, 0, some) if some else Origins()

    def say(self, node: str, *tallies: Tally, at_ms: int | None = None, reads: Sequence[Read] = ()) -> None:
        at_ms = time.time_ns() // 10**6 if at_ms is None else at_ms
        self._said += 1
        report = Report(self.nodes[node], f"test-{node}", self._said, at_ms, tallies, reads)
        for record in encoded(report):
            self._producer.produce(f"{self.name}.tallies", record, key_of(report), timestamp=at_ms)
        assert self._producer.flush(GUARD_S) == 0

    def chain(self, minute: int, came: Iterable[int], *, lost: Mapping[str, Iterable[int]] | None = None) -> None:
        """Events of the minute that come in and go their way, but for those that a node loses."""
        given, missing = {*came}, {node: {*some} for node, some in (lost or {}).items()}
        at_ms = minute * 60_000 + 30_000
        self.say("plays", Tally("", minute, self.of(given), self.of(given)), at_ms=at_ms)
        for node in ("first", "second", "acme"):
            given = given - missing.get(node, set())
            route = "acme" if node == "second" else ""
            tallies = [Tally("", minute, self.of(given), self.of(given))]
            tallies += [Tally(route, minute, Origins(), self.of(given))] if route else []
            self.say(node, *tallies, at_ms=at_ms + 1_000)

    def comes_in(self, count: int, at_ms: int) -> None:
        """So many records in the topic of ingest, with the time of its clock."""
        for _ in range(count):
            self._producer.produce(self.raw, b"{}", timestamp=at_ms)
        assert self._producer.flush(GUARD_S) == 0

    def alive(self) -> None:
        for node in ("plays", "acme"):
            self.say(node)

    def goes_on_at(self, minute: int, *, read: Mapping[str, Sequence[str]] | None = None) -> None:
        """As if an observer had judged all minutes before this one. `read`: how far nodes had read by then, as topic,
        partition and offset."""
        self.topics.ensure(f"{self.name}.minutes", config={"cleanup.policy": "compact"})
        content = {"from_ms": minute * 60_000 - 1_000, "minute": minute - 1, "floors": [], "placed": []}
        content["bases"] = [
            {"node": [self.name, self.nodes[node].kind.name, node], "read": [*places]}
            for node, places in (read or {}).items()
        ]
        self._producer.produce(f"{self.name}.minutes", json.dumps(content).encode(), CHECKPOINT)
        assert self._producer.flush(GUARD_S) == 0

    def written(self) -> list[MinuteVerdict]:
        """All verdicts in the topic, those that were replaced too."""
        return verdicts_in(self.servers, self.name)

    def verdict(self, minute: int) -> MinuteVerdict | None:
        """The newest."""
        return next((verdict for verdict in reversed(self.written()) if verdict.minute == minute), None)

    def settled(self, minute: int) -> MinuteVerdict:
        def found() -> MinuteVerdict | None:
            verdict = self.verdict(minute)
            return verdict if verdict is not None and verdict.lots else None

        verdict = wait_until(found, what=f"the verdict on minute {minute}")
        assert verdict is not None
        return verdict


def verdicts_in(servers: str, pipeline: str) -> list[MinuteVerdict]:
    """All that are in the topic, in their order."""
    connection, topic = {"bootstrap.servers": servers}, f"{pipeline}.minutes"
    topics, found = Topics(new_admin_client(connection)), list[MinuteVerdict]()
    if not topics.exists(topic):
        return []
    starts, ends = topics.start_offsets(topic), topics.end_offsets(topic)
    for batch in read_topic(connection, topic, starts, ends):
        values = [message.value() for message in batch if is_verdict(message.key())]
        found += [decoded(value) for value in values if value is not None]
    return found


class Observer(PagedProgram):
    def json(self, path: str) -> Any:
        return json.loads(self.ask(path)[1])

    def until_ready(self) -> None:
        wait_until(lambda: self.ask("/readyz")[0] == 200, what="readiness")


def observing(config: Path) -> AbstractContextManager[Observer]:
    """The program; killed at the end, if it still runs."""
    return program(Observer, ["observe_service"], config)
