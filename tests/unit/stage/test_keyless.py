"""Events without a key, and topics that are compacted: brokers refuse such records, so that they are dead letters."""

import pyarrow as pa
import pytest

from enrich.stage.compute import Compiled
from enrich.stage.compute.kinds import TEXT
from enrich.stage.compute.nodes import Field
from enrich.stage.steps.keyed import NO_KEY, RequireKeys
from enrich.stage.steps.leaving.routes import KEY as KEY_OF_ROUTE
from enrich.stage.steps.leaving.routes import SELECTED, TOO_LARGE, TOPIC, Computed, RouteSpec, TakeRoutes
from enrich.stage.steps.step import Operator
from enrich.stage.steps.tombstones import TakeTombstones
from enrich.stage.task.columns import (
    BESIDE,
    KEY,
    OUTPUT,
    PROBLEM,
    PROBLEM_ROUTE,
    RECORDS,
    ROUTED,
    USABLE,
    VALUE,
)
from enrich.stage.task.fate import Fate

MOST = {"plain": 1_000, "compacted": 1_000}


def text(name):
    return Compiled(name, Field((name,), TEXT))


def taken(steps, keys, **fields):
    count = len(keys)
    columns = {
        USABLE: pa.array([True] * count),
        BESIDE: pa.array([100] * count, pa.int64()),
        KEY: pa.array(keys, pa.binary()),
        "id": pa.array([str(number) for number in range(count)]),
        **fields,
    }
    operator = Operator.of(steps, [RECORDS, ROUTED, PROBLEM, PROBLEM_ROUTE, USABLE])
    assert set(operator.inputs) <= columns.keys()
    return operator.begin(None)({name: columns[name] for name in operator.inputs})


def topics_of(made):
    return [[record["topic"] for record in each] for each in made[RECORDS].to_pylist()]


def route(**more):
    return RouteSpec("all", ["plain", "compacted"], selects=True, most_bytes=MOST, compacted=["compacted"], **more)


def test_a_record_with_the_events_key_is_a_problem_only_on_its_way_to_a_compacted_topic():
    values = {SELECTED: text("id"), TOPIC: text("where")}
    step = TakeRoutes([route(chooses_topic=True, computed=Computed(None, values, None))], Fate.DROP, has_lookups=False)
    where = ["compacted", "compacted", "plain", "compacted", "elsewhere"]
    made = taken([step], [b"a", None, None, b"", None], where=pa.array(where))
    assert topics_of(made) == [["compacted"], [], ["plain"], ["compacted"], []]
    assert made[ROUTED].to_pylist() == [Fate.FORWARD, Fate.DLQ, Fate.FORWARD, Fate.FORWARD, Fate.DLQ]
    assert made[PROBLEM].to_pylist()[:4] == [None, NO_KEY, None, None]
    assert made[PROBLEM_ROUTE].to_pylist()[:4] == [None, "all", None, None]


def test_a_route_with_a_key_of_its_own_is_asked_for_that_one():
    values = {SELECTED: text("id"), TOPIC: text("where"), KEY_OF_ROUTE: text("own")}
    own = route(chooses_topic=True, has_key=True, computed=Computed(None, values, None))
    step = TakeRoutes([own], Fate.DROP, has_lookups=False)
    made = taken([step], [None, b"b"], own=pa.array(["a", None]), where=pa.array(["compacted"] * 2))
    assert topics_of(made) == [["compacted"], []]
    assert made[PROBLEM].to_pylist() == [None, NO_KEY]


def test_all_records_of_an_event_are_kept_back_if_one_of_them_is():
    values = {SELECTED: text("id")}
    plain = RouteSpec("plain", ["plain"], selects=True, most_bytes=MOST, computed=Computed(None, values, None))
    other = RouteSpec(
        "other", ["compacted"], selects=True, most_bytes=MOST, compacted=["compacted"], computed=plain.computed
    )
    made = taken([TakeRoutes([plain, other], Fate.DROP, has_lookups=False)], [None, b"b"])
    assert topics_of(made) == [[], ["plain", "compacted"]]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_tombstone_without_a_key_goes_on_unless_one_of_its_topics_is_compacted(is_compacted):
    to = RouteSpec(
        "to",
        ["plain", "compacted"],
        chooses_topic=True,
        selects=True,
        most_bytes=MOST,
        compacted=["compacted"] if is_compacted else [],
        computed=Computed(None, {SELECTED: text("id"), TOPIC: text("where")}, None),
    )
    taking = TakeRoutes([to], Fate.DROP, has_lookups=False)
    tombstones = TakeTombstones(["to"], {0: to.topics}, taking.record, {0: 1_000}, "to" if is_compacted else None)
    usable, where = pa.array([True, False, False]), pa.array(["plain", None, None])
    values = pa.array([b"{}", None, None])
    made = taken([taking, tombstones], [b"a", None, b"c"], **{USABLE: usable, VALUE: values, "where": where})
    both = ["plain", "compacted"]
    assert topics_of(made) == [["plain"], [] if is_compacted else both, both]
    assert made[PROBLEM].to_pylist() == [None, NO_KEY if is_compacted else None, None]
    assert made[PROBLEM_ROUTE].to_pylist() == [None, "to" if is_compacted else None, None]
    second = Fate.DLQ if is_compacted else Fate.FORWARD
    assert made[ROUTED].to_pylist() == [Fate.FORWARD, second, Fate.FORWARD]
    assert made[USABLE].to_pylist() == [True, True, True]


def test_a_tombstone_that_is_too_large_for_one_of_its_topics_takes_no_route():
    values = {SELECTED: text("id")}
    wide = RouteSpec("wide", ["plain"], selects=True, most_bytes=MOST, computed=Computed(None, values, None))
    tight = RouteSpec("tight", ["compacted"], selects=True, most_bytes=MOST, computed=wide.computed)
    taking = TakeRoutes([wide, tight], Fate.DROP, has_lookups=False)
    tombstones = TakeTombstones(["wide", "tight"], {0: wide.topics, 1: tight.topics}, taking.record, {0: 1_000, 1: 500})
    some, beside = {USABLE: pa.array([False] * 2), VALUE: pa.array([None] * 2, pa.binary())}, pa.array([500, 501])
    made = taken([taking, tombstones], [b"a", b"b"], **{**some, BESIDE: beside})
    assert topics_of(made) == [["plain", "compacted"], []]
    assert made[ROUTED].to_pylist() == [Fate.FORWARD, Fate.DLQ]
    assert made[PROBLEM].to_pylist() == [None, TOO_LARGE]
    assert made[PROBLEM_ROUTE].to_pylist() == [None, "tight"]


def test_a_compacted_sink_gets_no_event_without_a_key():
    columns = {KEY: pa.array([b"a", None, b""]), OUTPUT: pa.array([b"1", b"2", None])}
    made = RequireKeys().begin(None)(columns)
    assert made[OUTPUT].to_pylist() == [b"1", None, None]
    assert made[PROBLEM].to_pylist() == [None, NO_KEY, None], "what is too large says so elsewhere"
    whole = {name: column.take(pa.array([0])) for name, column in columns.items()}
    assert RequireKeys().begin(None)(whole)[PROBLEM].to_pylist() == [None]
