"""What becomes of a batch of events, with tables in memory."""

import json
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from enrich.codecs import JsonDecoder
from enrich.config import OnMiss
from enrich.config.types.columns import parse_columns
from enrich.stage.task.fate import Fate
from enrich.stage.task.lookups import StageLookup
from enrich.stage.task.spec import TaskSpec
from enrich.stage.worker.answers import AHEAD_MS, NotYet, Questions, answered
from stores.clock import SystemClock
from stores.freshness import MarkStale
from stores.protocol import TableSpec, TableUpdate
from stores.table import RowVersion, Status, row_versions
from tests.support.stores.memory_store import MemoryStore
from tests.support.waiting import wait_until

COLUMNS = parse_columns("plan string")
BOUND_MS = 60_000
LOOKUP = StageLookup("user", "users", COLUMNS, ("user_id",))


class Tables:
    """One table, `users`, which is complete up to `through` and, once `renew` is asked for, to now."""

    def __init__(self, through_ms):
        self._store = MemoryStore({"users": TableSpec(COLUMNS.arrow, JsonDecoder(COLUMNS.arrow))}, SystemClock())
        row = RowVersion(b"ann", 0, 0, 0, json.dumps({"plan": "free"}).encode())
        gone = RowVersion(b"gone", 0, 1, 0, None)
        self._publish([row, gone], through_ms)
        self._reader = self._store.reader()
        self._snapshot = self._reader.snapshot()

    def _publish(self, versions, through_ms):
        self._store.publish({"users": TableUpdate(row_versions(versions), {0: 2}, through_ms, {})})

    def table(self, name):
        return MarkStale(self._snapshot.table(name), BOUND_MS, SystemClock())

    def renew(self):
        self._publish([], SystemClock().now_ms())
        self._snapshot = self._reader.snapshot()

    def pause(self):
        self.renew()

    def load(self, wanted):
        raise AssertionError(f"these tables are not on demand: {wanted}")

    def deadline_s(self, _):
        return 60.0


def answers(lookup, through_ms, users, times_ms):
    questions = Questions(
        np.ones(len(users), np.bool_), [pa.array(users)], pa.array(times_ms, pa.timestamp("ms", tz="UTC"))
    )
    return answered(TaskSpec("", (lookup,), (), lineage=True), Tables(through_ms), questions).to_pylist()


@pytest.mark.parametrize("policy", [OnMiss.drop, OnMiss.dlq, OnMiss.fail])
def test_no_event_is_diverted_since_a_table_is_old(policy):
    lookup, now = replace(LOOKUP, last_resort=policy), SystemClock().now_ms()
    found = answers(lookup, now - 2 * BOUND_MS, ["ann", "nobody", "gone"], [now] * 3)
    assert [each["fate"] for each in found] == [Fate.FORWARD] * 3
    assert [each["object_0"] for each in found] == [{"plan": "free"}, None, None]
    assert {each["lineage_0"]["status"] for each in found} == {Status.STALE.name.lower()}
    if policy != OnMiss.fail:
        diverted = answers(lookup, now, ["ann", "nobody", "gone", None], [now] * 4)
        assert [each["fate"] == Fate.FORWARD for each in diverted] == [True, False, False, False]


def test_an_event_without_a_row_in_an_old_table_has_its_default_and_waits_for_its_row():
    now = SystemClock().now_ms()
    default = replace(LOOKUP, last_resort=OnMiss.default, default={"plan": "none"})
    assert answers(default, now - 2 * BOUND_MS, ["nobody"], [now])[0]["object_0"] == {"plan": "none"}
    waiting = replace(LOOKUP, last_resort=OnMiss.dlq, waits=True)
    (found,) = answers(waiting, now - 2 * BOUND_MS, ["nobody"], [now - 5_000])
    assert (found["fate"], found["lineage_0"]["status"]) == (Fate.DLQ, "miss"), "it did not wait for a newer table"


@pytest.mark.parametrize("time_ms", [2**62, AHEAD_MS + 3_600_000])
def test_a_time_far_ahead_does_not_hold_the_events_beside_it(time_ms):
    waiting = replace(LOOKUP, last_resort=OnMiss.dlq, waits=True)
    began, now = time.monotonic(), SystemClock().now_ms()
    found = answers(waiting, now, ["ann", "nobody"], [now, min(now + time_ms, 2**62)])
    assert [each["fate"] for each in found] == [Fate.FORWARD, Fate.DLQ]
    assert time.monotonic() - began < 20, "it waited for the table's deadline"


class TablesOfAPiece(Tables):
    """As a slot has them, which does something else meanwhile."""

    def pause(self):
        raise NotYet


def test_nor_does_it_hold_the_events_of_its_partition_in_a_slot():
    waiting = replace(LOOKUP, last_resort=OnMiss.dlq, waits=True)
    began, now = time.monotonic(), SystemClock().now_ms()
    tables = TablesOfAPiece(now)
    times = pa.array([now + AHEAD_MS + 3_600_000], pa.timestamp("ms", tz="UTC"))
    questions = Questions(np.ones(1, np.bool_), [pa.array(["nobody"])], times)

    def answer():
        tables.renew()
        try:
            return answered(TaskSpec("", (waiting,), (), lineage=True), tables, questions, since=began).to_pylist()
        except NotYet:
            return None

    found = wait_until(answer, what="the answer, before the table's deadline", deadline_s=20)
    assert found is not None and found[0]["fate"] == Fate.DLQ
