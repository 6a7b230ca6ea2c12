"""Headers that a route gives its records: text, or any bytes."""

import pyarrow as pa
import pytest

from enrich.stage.compute import Compiled
from enrich.stage.compute.nodes import Field
from enrich.stage.steps.leaving.routes import SELECTED, Computed, RouteSpec, TakeRoutes, header_name
from enrich.stage.task.columns import BESIDE, RECORDS, USABLE
from enrich.stage.task.fate import Fate

KINDS = {
    "text": pa.array(["é", "", None]),
    "bytes": pa.array([b"\xff\x00", b"", None], pa.binary()),
    "null": pa.nulls(3),
}


def field(name, kind):
    return Compiled(name, Field((name,), kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_header_has_the_bytes_of_its_value(kind):
    values = KINDS[kind]
    parts = {SELECTED: field("id", pa.string()), header_name(0): field("own", values.type)}
    route = RouteSpec(
        "all",
        ["out"],
        selects=True,
        headers=["own"],
        most_bytes={"out": 1_000},
        computed=Computed(None, parts, None),
    )
    columns = {
        USABLE: pa.array([True] * 3),
        BESIDE: pa.array([100] * 3, pa.int64()),
        "id": pa.array(["0", "1", "2"]),
        "own": values,
    }
    made = TakeRoutes([route], Fate.DROP, has_lookups=False).begin(None)(columns)
    wanted = [None if each is None else each.encode() if isinstance(each, str) else each for each in values.to_pylist()]
    found = [[header["value"] for header in record["headers"]] for (record,) in made[RECORDS].to_pylist()]
    assert found == [[] if each is None else [each] for each in wanted]
