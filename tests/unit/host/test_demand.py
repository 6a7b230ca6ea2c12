"""What readers tell the agent of tables on demand: a key now and then, for as long as it is looked up."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pyarrow as pa
import pytest

from enrich.base.errors import Unreachable
from enrich.codecs import JsonDecoder
from enrich.host.reader import demand
from enrich.host.reader.demand import Demands
from enrich.host.reader.views import OnDemandView
from stores.clock import SystemClock
from stores.protocol import TableSpec, TableUpdate
from stores.table import RowVersion, row_versions
from tests.support.stores.memory_store import MemoryStore
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000


class Agent:
    """As readers know it: it hears which keys are wanted."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.heard: list[bytes] = []
        self.is_there = True
        self.demands = Demands(self._hear, lambda: self.now_s)

    def _hear(self, table: str, keys: Sequence[bytes]) -> None:
        if not self.is_there:
            raise Unreachable("no agent")
        self.heard += [table.encode() + b"/" + key for key in keys]

    def until_heard(self, *keys: bytes) -> None:
        """These, in any order, and no others since the last time."""
        wait_until(lambda: sorted(self.heard) == sorted(keys), what=f"to hear {keys}")
        self.heard.clear()


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent()
    with closing(agent.demands):
        yield agent


@pytest.fixture
def looked_up(agent: Agent) -> Callable[..., object]:
    """In a table of which `ann` has a row of now, `old` one that is older than `refresh`, and `ahead` one from before
    the clock was set back."""
    columns = pa.schema([("rps", pa.int32())])
    store = MemoryStore({"limits": TableSpec(columns, JsonDecoder(columns))}, SystemClock())
    now_ms, row = SystemClock().now_ms(), json.dumps({"rps": 1}).encode()
    times = {b"ann": now_ms, b"old": now_ms - 2 * HOUR_MS, b"ahead": now_ms + 2 * HOUR_MS}
    rows = [RowVersion(key, 0, number, time_ms, row) for number, (key, time_ms) in enumerate(times.items())]
    store.publish({"limits": TableUpdate(row_versions(rows), {0: 3}, None, {})})
    table = store.reader().snapshot().table("limits")

    def nothing() -> None:
        raise AssertionError("it is not asked for")

    view = OnDemandView(table, None, nothing, nothing, "limits", HOUR_MS, agent.demands)  # type: ignore[arg-type]
    return lambda *keys: view.lookup(pa.array(keys, pa.string()), ["rps"])


def test_a_key_that_is_not_there_is_told_again_for_as_long_as_it_is_looked_up(
    agent: Agent, looked_up: Callable[..., object]
) -> None:
    looked_up("ann", "old", "new")
    agent.until_heard(b"limits/old", b"limits/new")
    for _ in range(10):
        looked_up("ann", "old", "new")
    looked_up("newer")
    agent.until_heard(b"limits/newer")
    agent.now_s += 5
    looked_up("ann", "old", "new")
    agent.until_heard(b"limits/new")
    agent.now_s += 25
    looked_up("ann", "old", "new")
    agent.until_heard(b"limits/old", b"limits/new")


def test_of_a_row_from_before_the_clock_was_set_back_the_agent_is_told(
    agent: Agent, looked_up: Callable[..., object]
) -> None:
    looked_up("ann", "ahead")
    agent.until_heard(b"limits/ahead")


def test_what_there_was_no_room_for_is_told_later(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand, "_MOST_UNTOLD", 3)
    monkeypatch.setattr(demand, "_AGAIN_S", 0.01)
    agent.is_there = False
    keys = [b"%d" % number for number in range(6)]
    agent.demands.note("limits", keys, 3_600)
    agent.is_there = True
    agent.until_heard(*(b"limits/" + key for key in keys[:3]))
    agent.demands.note("limits", keys, 3_600)
    agent.until_heard(*(b"limits/" + key for key in keys[3:]))


def test_another_agent_is_told_what_the_last_one_was(agent: Agent) -> None:
    for _ in range(2):
        agent.demands.note("limits", [b"ann"], 3_600)
        agent.until_heard(b"limits/ann")
        agent.demands.forget()
