"""`enrich(df, ...)`: the lookups of a stage in somebody's own job, as docs/stages.md shows it."""

import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from enrich import enrich, failure_of
from enrich.base.errors import BadRecord, ConfigError
from tests.support.stage.frames import python_operators
from tests.support.stage.world import StageWorld
from tests.support.waiting import GUARD_S, wait_until

PAGE = Path(__file__).parents[4] / "docs" / "stages.md"
LOOKUP = {"table": "users", "key": "user_id", "as": "user", "select": ["plan"]}


@pytest.fixture(scope="module")
def world(cluster, tmp_path_factory):
    world = StageWorld(cluster, tmp_path_factory.mktemp("library"))
    world.users()
    world.table("plans", "plan string", {}, history="1h", freshness={"bound": "2s", "deadline": "30s"})
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
        ({**LOOKUP, "key": ["id", "cast(user_id AS binary)"]}, "is binary, and the parts of a composite key are text"),
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


def test_a_backfill_in_batch_joins_each_row_with_what_was_valid_at_its_time(spark, world, tmp_path):
    as_of = [{"table": "plans", "key": "user_id", "as": "then", "as_of": True, "on_miss": "wait"}]

    def backfilled(*rows):
        """In the rows' order: read from files, as a backfill does."""
        made = spark.createDataFrame([(n, *row) for n, row in enumerate(rows)], "id int, user_id string, at timestamp")
        made.write.parquet(str(tmp_path / "visits"), mode="overwrite")
        frame = enrich(spark.read.parquet(str(tmp_path / "visits")), world.pipeline, as_of, event_time="at")
        return [row.then and row.then.plan for _, row in sorted(by_id(frame).items())]

    def put(plan):
        """When the version began, in milliseconds."""
        world.put("plans", {"eve": {"plan": plan}})
        return max(message.timestamp()[1] for message in world.cluster.messages(world.topic("table.plans")))

    def at(ms):
        return datetime.fromtimestamp(ms / 1000, UTC)

    assert backfilled(("eve", datetime.now(UTC))) == [None]  # the table is loaded; its history begins here
    one = put("one")
    wait_until(lambda: time.time() * 1000 > one + 1, what="another millisecond")
    two = put("two")
    rows = [("eve", at(two)), ("eve", at(one)), ("eve", at(two - 1)), ("eve", at(one - 1)), ("nobody", at(two))]
    assert backfilled(*rows) == ["two", "one", "one", None, None]


CELLS = """
import sys
from pyspark.sql import SparkSession
from enrich import enrich, failure_of, load
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
here, there = [load(file) for file in FILES]
visits = spark.createDataFrame([("ann",), ("nobody",)], "user_id string")
lookup = {"table": "users", "key": "user_id", "as": "user", "select": ["plan"]}
enrich(visits, here, [{**lookup, "on_miss": "fail"}]).collect()
print("failed:", failure_of(sys.last_value))
both = enrich(enrich(visits, here, [lookup]), there, [{**lookup, "as": "other"}])
[(row.user and row.user.plan, row.other and row.other.plan) for row in both.collect()]
both = enrich(enrich(visits, here, [lookup]), there, [{**lookup, "as": "other"}])
[(row.user and row.user.plan, row.other and row.other.plan) for row in both.collect()]
"""


def test_at_a_prompt_a_plain_session_joins_tables_of_two_pipelines_and_goes_on_after_a_failure(
    cluster, world, tmp_path
):
    """As in a notebook: cells that fail, and cells that are run again."""
    other = StageWorld(cluster, tmp_path)
    other.table("users", "plan string", {"nobody": {"plan": "elsewhere"}})
    try:
        cells = CELLS.replace("FILES", repr([str(world.file), str(other.file)]))
        prompt = [sys.executable, "-i", "-q", "-"]
        done = subprocess.run(prompt, input=cells, capture_output=True, text=True, timeout=GUARD_S, check=False)
    finally:
        other.close()
    assert "failed: an event has no row in the table users" in done.stdout, done.stderr[-4000:]
    assert done.stdout.count("[('free', None), (None, 'elsewhere')]") == 2, done.stderr[-4000:]
    assert done.returncode == 0
