"""Routes that make a record of each element of a list: an event may not become more than there is memory for."""

import pyarrow as pa
import pytest

from enrich.stage.compute import Compiled
from enrich.stage.compute.kinds import TEXT
from enrich.stage.compute.nodes import Field
from enrich.stage.steps.leaving import routes
from enrich.stage.steps.leaving.routes import SELECTED, TOO_MUCH, Computed, RouteSpec, TakeRoutes
from enrich.stage.task.columns import BESIDE, PROBLEM, RECORDS, ROUTED, USABLE
from enrich.stage.task.fate import Fate


@pytest.fixture
def step(monkeypatch):
    monkeypatch.setattr(routes, "MOST_OF_EVENT", 10_000)
    line = Computed(None, {SELECTED: Compiled("line", Field(("lines",), TEXT))}, "lines")
    route = RouteSpec("lines", ["out"], explodes=True, selects=True, most_bytes={"out": 5_000}, computed=line)
    return TakeRoutes([route], Fate.DROP, has_lookups=False)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["a line"] * 20, None),
        (["a line"] * 120, TOO_MUCH),  # each with 100 bytes of key and headers
        (["x" * 1_000] * 20, TOO_MUCH),
        ([], None),
    ],
)
def test_an_event_whose_records_are_too_large_together_is_a_dead_letter(step, lines, problem):
    columns = {
        USABLE: pa.array([True, True, True]),
        BESIDE: pa.array([100, 100, 100], pa.int64()),
        "lines": pa.array([["first"], lines, ["last", "last"]], pa.list_(pa.string())),
    }
    made = step.begin(None)(columns)
    assert made[PROBLEM].to_pylist() == [None, problem, None]
    assert [len(each) for each in made[RECORDS].to_pylist()] == [1, 0 if problem else len(lines), 2]
    fate = Fate.DLQ if problem else Fate.FORWARD if lines else Fate.DROP
    assert made[ROUTED].to_pylist() == [Fate.FORWARD, fate, Fate.FORWARD]


def test_fields_that_each_record_has_count_as_often_as_there_are_elements(step):
    joined = Computed(None, {SELECTED: Compiled("text", Field(("text",), TEXT))}, "lines")
    (route,) = step.routes
    step = TakeRoutes([RouteSpec(**{**vars(route), "computed": joined})], Fate.DROP, has_lookups=False)
    columns = {
        USABLE: pa.array([True, True]),
        BESIDE: pa.array([0, 0], pa.int64()),
        "lines": pa.array([["1"] * 11, ["1"] * 9], pa.list_(pa.string())),
        "text": pa.array(["x" * 1_000, "x" * 1_000]),
    }
    made = step.begin(None)(columns)
    assert made[PROBLEM].to_pylist() == [TOO_MUCH, None]
    assert [len(each) for each in made[RECORDS].to_pylist()] == [0, 9]
