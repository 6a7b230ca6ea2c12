"""`enrich(df, ...)`: the lookups of a stage in somebody's own job, as docs/stages.md shows it."""

import re
from pathlib import Path

import pytest

from enrich.base.errors import BadRecord, ConfigError
from enrich.stage import enrich, failure_of
from tests.support.stage_frames import python_operators
from tests.support.stages import StageWorld

PAGE = Path(__file__).parents[3] / "docs" / "stages.md"
LOOKUP = {"table": "users", "key": "user_id", "as": "user", "select": ["plan"]}


@pytest.fixture(scope="module")
def world(cluster, tmp_path_factory):
    world = StageWorld(cluster, tmp_path_factory.mktemp("library"))
    world.users()
    yield world
    world.close()


@pytest.fixture
def visits(spark):
    rows = [(1, "ann"), (2, "nobody"), (3, None), (4, "gone")]
    return spark.createDataFrame(rows, "id int, user_id string")


def by_id(frame):
    return {row.id: row for row in frame.collect()}


def test_rows_get_an_object_a_lookup_in_one_operator(world, visits):
    twice = [LOOKUP, {**LOOKUP, "as": "other", "key": "'bob'", "on_miss": "fail"}]
    frame = enrich(visits, world.pipeline, twice, lineage=True)
    rows = by_id(frame)
    assert {number: row.user and row.user.plan for number, row in rows.items()} == {
        1: "free",
        2: None,
        3: None,
        4: None,
    }
    assert {row.other.plan for row in rows.values()} == {"pro"}
    assert rows[4]._lineage.user.status == "deleted"
    assert python_operators(frame) == [("ArrowEvalPython", 4)]


def test_dropped_rows_are_left_out_and_those_for_the_dlq_are_named(world, visits):
    assert set(by_id(enrich(visits, world.pipeline, [{**LOOKUP, "on_miss": "drop"}]))) == {1}
    rows = by_id(enrich(visits, world.pipeline, [{**LOOKUP, "on_miss": "dlq"}], outcome="outcome"))
    told = {number: tuple(row.outcome) for number, row in rows.items()}
    assert told == {
        1: ("forward", None, None),
        2: ("dlq", "user", "miss"),
        3: ("dlq", "user", "null_key"),
        4: ("dlq", "user", "deleted"),
    }


@pytest.mark.parametrize(
    ("lookup", "says"),
    [
        ({**LOOKUP, "on_miss": "dlq"}, "pass outcome=NAME"),
        ({**LOOKUP, "as_of": True}, "pass event_time=EXPRESSION"),
        ({**LOOKUP, "as": "ID"}, "already a column `ID`"),
        ({**LOOKUP, "table": "user"}, "there is no table `user`"),
        ({**LOOKUP, "key": "id + 0.5"}, "cannot be a key"),
        ({**LOOKUP, "key": "nothing"}, "Spark cannot read `nothing`"),
        ({**LOOKUP, "kye": "id"}, "kye"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(world, visits, lookup, says):
    with pytest.raises(ConfigError) as raised:
        enrich(visits, world.pipeline, [lookup])
    assert says in str(raised.value)


def test_columns_may_have_any_names_that_spark_can_tell_apart(world, visits):
    odd = visits.selectExpr("*", "1 AS `a.b`", "2 AS `c``d`", "3 AS _asks", "4 AS _answer", "5 AS _key_0", "6 AS _time")
    rows = enrich(odd, world.pipeline, [LOOKUP]).collect()
    assert {tuple(row)[2:8] for row in rows} == {(1, 2, 3, 4, 5, 6)}
    assert {row.id: row.user and row.user.plan for row in rows} == {1: "free", 2: None, 3: None, 4: None}
    for column in ("user_id AS ID", "1 AS _enrich_time"):
        with pytest.raises(ConfigError) as raised:
            enrich(visits.selectExpr("*", column), world.pipeline, [LOOKUP])
        assert "rename" in str(raised.value)


def test_what_ends_a_job_is_told_to_people_and_to_programs(world, visits):
    frame = enrich(visits, world.pipeline, [{**LOOKUP, "on_miss": "fail"}])
    with pytest.raises(Exception) as raised:
        frame.collect()
    told = failure_of(raised.value)
    assert isinstance(told, BadRecord)
    assert told.what.startswith("an event has no row in the table users")
    assert f"ReportedFailure: {told}" in str(raised.value)


def test_the_example_of_the_page_runs_on_a_stream(spark, world, tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    topic = world.topic("visits")
    world.cluster.produce(topic, [(None, b"ann"), (None, b"nobody")])
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", world.cluster.connection["bootstrap.servers"])
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(value AS STRING) AS user_id")
    )
    names = {"visits": stream, "file": str(world.file)}
    exec(example, names)  # noqa: S102 - the page's own text
    query = names["enriched"].writeStream.format("memory").queryName("page").trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    rows = spark.table("page").collect()
    assert {(row.user_id, row.user and row.user.plan) for row in rows} == {("ann", "free"), ("nobody", None)}
