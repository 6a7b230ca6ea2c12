"""In which order an on-demand table's keys are loaded, and which of them are given up."""

import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from enrich.base.backoff import Backoff as Pauses
from enrich.base.errors import Unreachable
from enrich.codecs import JsonDecoder
from enrich.endpoints.pages import LeftAlone
from enrich.host.on_demand import loads as loads_module
from enrich.host.on_demand.loads import Loads, Plan
from stores.backoff import Backoff
from tests.support.waiting import wait_until

HOUR_S = 3_600.0


class Source:
    """Answers one at a time, once it may."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.may_answer = threading.Event()
        self.is_away = False
        self.wants_s: float | None = None
        """For how long it wants to be left alone, if it says so."""

    def row(self, key: bytes) -> bytes | None:
        self.asked.append(key)
        self.may_answer.wait(60)
        if self.wants_s is not None:
            error = LeftAlone("the endpoint answers 503")
            error.wait_s = self.wants_s
            raise error
        if self.is_away:
            raise Unreachable("away")
        return b'{"rps": 1}'

    def close(self) -> None:
        pass


class Table:
    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.source = Source()
        decoder = JsonDecoder(pa.schema([("rps", pa.int32())]))
        self.loads = Loads(self.source, decoder, Plan(HOUR_S, 24 * HOUR_S, 100, 1_000, 1), lambda: self.now_s)


@pytest.fixture
def table() -> Iterator[Table]:
    table = Table()
    yield table
    table.source.may_answer.set()
    table.loads.close(60)


def test_keys_that_somebody_waits_for_come_first_and_those_without_a_row_hold_no_old_one_up(table: Table) -> None:
    loads, source = table.loads, table.source
    loads.cache.put(b"old", True)
    table.now_s += 2 * HOUR_S
    loads.want([b"first"])
    wait_until(lambda: source.asked == [b"first"], what="the first question")
    loads.want([b"old", b"a", b"b", b"c"])
    loads.need([b"b", b"new"])
    source.may_answer.set()
    wait_until(lambda: len(source.asked) == 6, what="all questions")
    assert source.asked == [b"first", b"b", b"new", b"old", b"a", b"c"]
    wait_until(lambda: len(loads.landed) == 6 and not loads.waiting, what="the answers")


def test_a_key_that_somebody_waits_for_is_tried_now_not_when_its_next_try_is_due(table: Table) -> None:
    loads, source = table.loads, table.source
    loads._retries, loads._pauses = Backoff(HOUR_S, HOUR_S), Pauses(0.001, 0.001)
    source.is_away = True
    source.may_answer.set()
    loads.want([b"ann"])
    wait_until(lambda: loads.counts.failures == 1 and loads._paced.waiting == 1, what="a failure")
    source.is_away = False
    loads.need([b"ann"])
    wait_until(lambda: not loads.is_asked(b"ann"), what="the row")
    assert {key: landed.value for key, landed in loads.landed.items()} == {b"ann": b'{"rps": 1}'}
    assert source.asked == [b"ann"] * 2


def test_a_source_that_wants_to_be_asked_again_at_once_and_fails_is_asked_less_and_less(table: Table) -> None:
    """As one does whose Retry-After is a time that has passed."""
    loads, source = table.loads, table.source
    loads._pauses = Pauses(HOUR_S, HOUR_S)
    source.wants_s = 0.0
    source.may_answer.set()
    loads.want([b"ann"])
    wait_until(lambda: loads.counts.failures == 1, what="a failure")
    with loads.changed:
        assert loads._paced._paused_until_s > time.monotonic() + HOUR_S / 3


def test_while_the_agent_cannot_write_what_came_no_more_is_loaded(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads_module, "_MOST_AHEAD", 3)
    loads, source = table.loads, table.source
    source.may_answer.set()
    loads.want([b"%d" % number for number in range(6)])
    wait_until(lambda: len(source.asked) >= 3, what="as many as may come")
    loads.want([b"more"])
    first = loads.landed.copy()
    while len(first) < 3:
        first = loads.landed.copy()
    assert len(source.asked) == 3
    loads.taken()
    wait_until(lambda: len(source.asked) == 6, what="three more")
    loads.taken()
    wait_until(lambda: len(source.asked) == 7, what="the last one")
