"""Every engine agrees with the plain model, whatever is published, removed and asked, in whatever order."""

import ipaddress
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.protocol import KeyKind
from stores.table import TIMESTAMP, RowVersion, Status
from tests.contract.stores.engines import ENGINES, OpenEngine
from tests.contract.stores.store_under_test import StoreUnderTest, find, table
from tests.property.stores.model import Model
from tests.support.clock import ManualClock

HISTORY = 5
KEYS = st.sampled_from(["a", "b", ""])
NETWORKS = st.sampled_from(
    [
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.2.3/32",
        "0.0.0.0/0",
        "::/0",
        "2001:db8::/32",
        "2001:db8::1/128",
        "10.1.7.7/16",
    ]
)
ADDRESSES = st.one_of(
    st.sampled_from(["10.1.2.3", "::ffff:10.1.2.3", "10.1.9.9", "10.9.9.9", "2001:db8::1", "2001:db9::1", "9.9.9.9"]),
    st.ip_addresses().filter(lambda ip: not getattr(ip, "scope_id", None)).map(str),
)
TIMES = st.integers(0, 15)


Row = tuple[str, int, int, bool]
Step = list[Row] | int


def publications(keys: st.SearchStrategy[str]) -> st.SearchStrategy[list[Step]]:
    """Steps of a store's life: a batch of (key, partition, timestamp, is a tombstone), or (time passed, removal)."""
    row = st.tuples(keys, st.sampled_from([0, 0, 0, 1]), TIMES, st.booleans())
    return st.lists(st.one_of(st.lists(row, max_size=6), st.integers(0, 12)), max_size=8)


class Harness:
    def __init__(self, open_engine: OpenEngine, stack: ExitStack, key: KeyKind) -> None:
        self.clock = ManualClock(now_ms=0)
        self.store = StoreUnderTest(
            stack.enter_context(open_engine({"t": table(HISTORY, key)}, self.clock)), self.clock
        )
        self.model = Model()
        self._next: dict[int, int] = {}
        self.pins: list[tuple[int, dict[int, int]]] = []
        """The moment of each publication and a pin to just what it showed."""

    def live(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, int):
                self.clock.advance(step)
                self.store.remove_expired()
                continue
            versions = [self._version(*row) for row in step]
            self.model.add(versions)
            self.store.publish("t", *versions)
            positions = dict(self.store.reader.snapshot().table("t").positions)
            self.pins.append((self.clock.now_ms(), positions))

    def _version(self, key: str, partition: int, timestamp: int, is_tombstone: bool) -> RowVersion:
        offset = self._next.get(partition, 0)
        self._next[partition] = offset + 1 + timestamp % 2  # topics have gaps
        value = None if is_tombstone else json.dumps({"plan": f"{partition}/{offset}"}).encode()
        return RowVersion(key.encode(), partition, offset, timestamp, value)

    def expects(self, view, probe, expected, as_of, pin) -> None:
        times = None if as_of is None else pa.array([as_of], TIMESTAMP)
        (answer,) = find(view, pa.array([probe]), as_of=times, pin=pin)
        below_floor = (as_of is not None and any(as_of < floor.timestamp for floor in view.floors.values())) or (
            pin is not None and any(at < view.floors[p].offset for p, at in pin.items() if p in view.floors)
        )
        assert (answer.status is Status.EXPIRED) == below_floor
        if below_floor:
            return
        partition, offset = answer.position or (None, None)
        assert (answer.status, partition, offset) == expected
        if answer.status is Status.HIT:
            assert answer.values == {"plan": f"{partition}/{offset}"}

    def promises_history_to(self, probe) -> None:
        """Nothing that the table's history covers is expired."""
        horizon = self.clock.now_ms() - HISTORY
        questions: list[dict[str, Any]] = [{"pin": pin} for moment, pin in self.pins if moment >= horizon]
        questions += [
            {"as_of": pa.array([time], TIMESTAMP)} for time in range(max(horizon, 0), self.clock.now_ms() + 1)
        ]
        view = self.store.reader.snapshot().table("t")
        for question in questions:
            answer = find(view, pa.array([probe]), **question)[0]
            assert answer.status is not Status.EXPIRED, question

    def questions(self, positions, times: list[int | None]) -> Iterator[tuple[int | None, dict[int, int] | None]]:
        """Every time, every pin along one partition, and the given times under each of these pins."""
        pins = [{**positions, p: offset} for p, end in positions.items() for offset in range(end + 1)]
        yield from ((time, None) for time in [None, *range(17)])
        yield from ((time, pin) for pin in [*pins, {}] for time in {None, *times})


@pytest.mark.parametrize("open_engine", list(ENGINES.values()), ids=list(ENGINES))
@given(steps=publications(KEYS), probes=st.lists(KEYS, min_size=1, max_size=4), times=st.lists(TIMES, max_size=2))
def test_exact_keys_answer_as_the_model_does(open_engine, steps, probes, times):
    with ExitStack() as stack:
        harness = Harness(open_engine, stack, KeyKind.EXACT)
        harness.live(steps)
        harness.promises_history_to(probes[0])
        view = harness.store.reader.snapshot().table("t")
        for as_of, pin in harness.questions(view.positions, times):
            for probe in probes:
                harness.expects(view, probe, harness.model.find(probe, as_of, pin), as_of, pin)


@pytest.mark.parametrize("open_engine", list(ENGINES.values()), ids=list(ENGINES))
@given(
    steps=publications(NETWORKS), probes=st.lists(ADDRESSES, min_size=1, max_size=4), times=st.lists(TIMES, max_size=2)
)
def test_addresses_find_their_network_as_the_model_does(open_engine, steps, probes, times):
    with ExitStack() as stack:
        harness = Harness(open_engine, stack, KeyKind.CIDR)
        harness.live(steps)
        harness.promises_history_to(probes[0])
        view = harness.store.reader.snapshot().table("t")
        for as_of, pin in harness.questions(view.positions, times):
            for probe in probes:
                harness.expects(view, probe, harness.model.find_network(probe, as_of, pin), as_of, pin)


@pytest.mark.parametrize("open_engine", list(ENGINES.values()), ids=list(ENGINES))
@given(keys=st.lists(st.none() | st.binary(max_size=12), max_size=30), present=st.sets(st.binary(max_size=12)))
def test_a_batch_of_keys_answers_as_each_key_alone(open_engine, keys, present):
    with ExitStack() as stack:
        harness = Harness(open_engine, stack, KeyKind.EXACT)
        versions = [RowVersion(key, 0, offset, 0, b'{"plan":"p"}') for offset, key in enumerate(present)]
        harness.store.publish("t", *versions)
        statuses = [a.status for a in harness.store.find("t", *pa.array(keys, pa.binary()).to_pylist())] if keys else []
        expected = [Status.NULL_KEY if key is None else Status.HIT if key in present else Status.MISS for key in keys]
        assert statuses == expected


def test_the_model_itself_knows_an_ip_network_from_an_address():
    model = Model()
    model.add([RowVersion(b"10.0.0.0/8", 0, 0, 0, b"{}")])
    assert model.find_network(str(ipaddress.ip_address("10.0.0.1"))) == (Status.HIT, 0, 0)
    assert model.find_network("11.0.0.1") == (Status.MISS, None, None)
