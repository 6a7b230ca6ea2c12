"""How many events a request of the generator holds, and what it says of those that cannot be sent."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from enrich.admin.rating import generating
from enrich.admin.rating.generating import HttpTarget, KafkaTarget, Rest, Target, sent
from enrich.admin.rating.samples import Samples
from enrich.admin.rating.ways import way_to_rate
from enrich.config import load

ENTRY = """
name: plays
kafka: {bootstrap_servers: "localhost:9092"}
state_dir: ./state
tallies: true
ingest:
  plays: {listen: "127.0.0.1:8080", path: /v1, topic: plays.raw, format: json, max_events: 700, max_body: 64KiB}
"""


class Strict:
    """Takes what is no more than it takes in a request, as ingest does."""

    def __init__(self, most: int, sizes: list[int]) -> None:
        self._most = most
        self._sizes = sizes

    def send(self, events: Sequence[bytes], time_ms: int) -> int:  # noqa: ARG002 - the signature of a target
        self._sizes.append(len(events))
        return len(events) if len(events) <= self._most else 0

    def close(self) -> Rest:
        return Rest()


def test_no_request_holds_more_events_than_are_taken_whatever_the_rate() -> None:
    sizes: list[int] = []
    samples = Samples([b"{}"], None, "x")
    done = sent(100_000, 0.1, samples, lambda: Strict(700, sizes), 700)  # 2,000 in a tick
    assert (done.due, done.taken, sum(sizes)) == (10_000, 10_000, 10_000)
    assert max(sizes) == 700


def test_a_request_holds_what_the_entry_takes(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(ENTRY)
    way = way_to_rate(load(file), cast(Any, None), None, None)
    assert way.per_request(Samples([b"{}"], None, "x")) == 700
    large = Samples([b'{"ts": 0, "text": "%s"}' % (b"x" * 1_000)], "ts", "x")
    assert 700 > way.per_request(large) >= 60
    assert len(b"\n".join(large.take(way.per_request(large), 10**13))) <= 2**16
    assert way.per_request(Samples([b'"%s"' % (b"x" * 2**17)], None, "x")) == 1


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (lambda: KafkaTarget({"bootstrap.servers": "127.0.0.1:1"}, "t"), "Message size too large"),
        (lambda: HttpTarget("http://127.0.0.1:1/", "secret\n"), "the token has characters that no header takes"),
    ],
)
def test_what_cannot_be_sent_is_not_taken_and_it_is_said_why(target: Callable[[], Target], why: str) -> None:
    done = sent(100, 0.1, Samples([b'"%s"' % (b"x" * 2_000_000)], None, "x"), target, 1)
    assert (done.due, done.taken) == (10, 0)
    assert done.why is not None
    assert why in done.why
    assert "secret" not in done.why


def test_what_no_broker_has_acknowledged_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generating, "_PATIENCE_S", 0.1)
    target = KafkaTarget({"bootstrap.servers": "127.0.0.1:1"}, "t")
    assert (target.send([b"{}"] * 10, 0), target.close()) == (
        0,
        Rest(0, "10 events were not acknowledged within 0.1 s"),
    )
