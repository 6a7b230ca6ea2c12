"""What becomes of JSON events, whoever evaluates the expressions over them."""

import json
from typing import Any
from unittest.mock import patch

import pytest

from bench.stage import contenders
from enrich.stage.compute import NotCompiled
from enrich.stage.plan.expressions import Expressions
from enrich.stage.plan.plan import StagePlan
from tests.support.seed import random_source, rounds
from tests.support.stage.events import BAD_EVENTS, GOOD_SHAPES, random_event
from tests.support.stage.frames import VERSIONS, python_operators, source_of
from tests.support.stage.world import StageWorld

ROWS: dict[str, Any] = {
    "ann": {"plan": 'a "quoted" one\n', "n": 5, "on": True, "day": "2026-02-28", "tags": ["é", None], "at": {"x": 1}},
    "bob": {"plan": None, "n": -(2**40), "on": None, "day": None, "tags": None, "at": None},
    "5": {"plan": "five", "n": 0, "on": False, "day": "1970-01-01", "tags": [], "at": {"x": None}},
    '["ann",5]': {"plan": "both", "n": 1, "on": True, "day": None, "tags": ["\\"], "at": None},
    "weird": {"plan": "".join(map(chr, range(1, 32))) + '"\\\\u001f\\x7f\u2028', "tags": ["\x0b"], "at": None},
    "12345678.0": {"plan": "as Python writes it"},
    "1.2345678E7": {"plan": "as Java writes it"},
    "-56": {"plan": "200 in eight bits"},
    "gone": None,
}
COLUMNS = "plan string, n bigint, on boolean, day date, tags array<string>, at struct<x:int>"
SCHEMA = "user_id string, ip string, n bigint, small tinyint, on boolean, ts timestamp"
USER = {"table": "rows", "key": "user_id", "as": "user"}
STAGES: dict[str, dict[str, Any]] = {
    "plain": {"lookups": [USER]},
    "policies": {"lookups": [{**USER, "on_miss": "dlq"}, {**USER, "key": "ip", "as": "address", "on_miss": "drop"}]},
    "numbers": {"lookups": [{**USER, "key": "n", "as": "by_n"}, {**USER, "key": "small", "as": "by_small"}]},
    "composite": {"lookups": [{**USER, "key": ["user_id", "n"], "as": "both"}], "lineage": True},
    "lineage": {"lookups": [USER, {**USER, "key": "ip", "as": "address", "on_miss": "dlq"}], "lineage": True},
    "defaults": {"lookups": [{**USER, "on_miss": "default", "default": {"plan": "none"}, "select": ["plan", "at"]}]},
    "waiting": {"lookups": [{**USER, "on_miss": "wait", "then": "dlq"}]},
}
EVALUATED: dict[str, tuple[str, dict[str, Any]]] = {
    "expression": ("`reverse(user_id)`", {"lookups": [{**USER, "key": "reverse(user_id)"}]}),
    "own-time": ("`now()`", {"lookups": [{**USER, "on_miss": "wait"}], "event_time": "now()"}),
}
"""What Spark is needed for, as the stage says it."""

EVENTS = (
    b'{"user_id":"ann","n":5,"small":5}',
    b'{"user_id":"ann","n":"5","small":300}',
    b'{"user_id":"ann","n":5.0,"small":-1}',
    b'{"user_id":["ann",5],"n":true}',
    b'{"user_id":{"a" : [1, "x"]},"n":99999999999999999999}',
    b'{"user_id":true,"ip":12345678901234567890123}',
    b'{"user_id":"\\ud800","ip":"\\u0041nn"}',
    b'{"user_id":"ann","d":' + b"[" * 2_000 + b"]" * 2_000 + b"}",
    *(b'{"user_id":"ann","d":' + b"[" * deep + b"]" * deep + b"}" for deep in (899, 900, 980, 990, 998)),
    b'{"user_id":' + b"[" * 899 + b"]" * 899 + b"}",
    b'{"user_id":"weird"}',
    b'{"user_id":"ann","small":200}',
    b'{"user_id":"ann","small":128,"n":-0}',
    *(
        b'{"user_id":' + number + b"}"
        for number in (b"12345678.0", b"1e7", b"1.50", b"1e400", b"-0", b"-0.0", b"0.1e-9")
    ),
    b'{"user_id":[1e7,{"a":1,"a":2.50}]}',
    b'{"user_id":{"a":"\\u007f\\u001f\\u000b\\/"}}',
    b'{"user_id":"ann","n":5,"n":"x"}',
    b'{"user_id":"ann","n":"x","n":5}',
    b'{"user_id":"ann","user_id":null}',
    b'{"user_id":"x","\\u0075ser_id":"ann"}',
    *(b'{"user_id":"ann","x":' + b"1" * digits + b"}" for digits in (1_001, 5_000)),
    b'{"user_id":"ann","n":' + b"1" * 1_001 + b"}",
    b'{"user_id":' + b"1" * 1_001 + b"}",
    b'{"user_id":"ann","' + b"y" * 50_001 + b'":1}',
    *(b'{"user_id":' + no_json + b"}" for no_json in (b"[tru]", b'{"a":01}', b"[1 2]", b"[NaN]", b'["a\nb"]', b"[,]")),
)

NO_JSON = (
    b"NaN",
    b"tru",
    b"1 2",
    b"01",
    b"1.",
    b"Infinity",
    b'"\\x"',
    b"[tru]",
    b'{"a" 1}',
    b"'q'",
    b'"a\nb"',
    b",",
    b"1,,2",
)
PLACES = (
    b'{"user_id":[%s]}',
    b'{"user_id":[1,%s,2],"n":1}',
    b'{"user_id":{"a":[%s]}}',
    b'{"tags":[%s]}',
    b'{"tags":["a",%s],"n":1}',
    b'{"numbers":[%s]}',
    b'{"device":{"id":"ann","t":%s}}',
    b'{"device":[%s]}',
    b'{"more":[%s]}',
)


@pytest.fixture(scope="module")
def world(cluster, tmp_path_factory):
    world = StageWorld(cluster, tmp_path_factory.mktemp("whole"))
    world.table("rows", COLUMNS, ROWS, history="1h")
    world.table("prices", "price double", {"ann": {"price": 1.5}})
    by_spark = {f"{name}-by-spark": _by_spark(section) for name, section in STAGES.items()}
    for name, section in {**STAGES, **by_spark, **{name: section for name, (_, section) in EVALUATED.items()}}.items():
        stage = world.stage(name, topics="all", **section)
        world.document["stages"][stage]["source"]["schema"] = SCHEMA
    yield world
    world.close()


def _by_spark(section: dict[str, Any]) -> dict[str, Any]:
    """The same stage with keys that are no plain fields."""

    def wrapped(key: str | list[str]) -> str | list[str]:
        return f"nvl({key}, {key})" if isinstance(key, str) else [f"nvl({each}, {each})" for each in key]

    return {**section, "lookups": [{**each, "key": wrapped(each["key"])} for each in section["lookups"]]}


def plan_of(spark, world, name):
    return StagePlan(spark, world.pipeline, name, source=VERSIONS)


def by_place(frame):
    return {
        bytes(row.key): (row.topic, bytes(row.value), [(each.key, bytes(each.value)) for each in row.headers or []])
        for row in frame.collect()
    }


def by_event(frame):
    """The same without what names the stage itself."""
    return {
        key.rpartition(b"/")[0] or key: (topic, value, [header for header in headers if header[0] != "enrich.stage"])
        for key, (topic, value, headers) in by_place(frame).items()
    }


@pytest.mark.parametrize("name", STAGES)
def test_records_are_the_same_whoever_evaluates_the_keys(spark, world, name):
    source = random_source("whole events")
    events = [
        *(BAD_EVENTS + GOOD_SHAPES + EVENTS),
        *(random_event(source, list(ROWS)) for _ in range(rounds(200, 10_000))),
    ]
    frame = source_of(spark, events)
    with patch.object(Expressions, "compiled", lambda _, text: NotCompiled(text, f"Spark evaluates `{text}`")):
        evaluated = plan_of(spark, world, f"{name}-by-spark")
    whole = plan_of(spark, world, name)
    assert (evaluated.joined_by == "workers", whole.joined_by) == (False, "workers")
    made = whole.records(frame)
    found = by_event(made)
    assert python_operators(made) == [("ArrowEvalPython", len(events))]
    expected = by_event(evaluated.records(frame))
    assert found.keys() == expected.keys()
    for place, record in expected.items():
        assert found[place] == record
    assert any(topic.endswith(".out") for topic, _, _ in found.values()), "no event was forwarded"


def test_what_is_no_json_is_never_forwarded_whatever_the_fields_are(spark, world):
    keys = ["concat(user_id,'')", "tags[0]", "numbers[0]", "device.id", "on", "price", "at", "day", "labels['a']"]
    stage = world.stage(
        "typed", [{**USER, "key": f"string({key})", "as": f"of{i}"} for i, key in enumerate(keys)], topics="all"
    )
    world.document["stages"][stage]["source"]["schema"] = (
        "user_id string, tags array<string>, numbers array<int>, device struct<id:string,t:double>, on boolean, "
        "price decimal(9,2), at timestamp, day date, labels map<string,int>, n bigint"
    )
    good = (
        b'{"user_id":"ann","tags":["ann",5],"numbers":[5,"x"],"device":{"id":"ann","t":"x"},"on":1,"price":5.00,'
        b'"at":"2026-01-01T00:00:00+01:00","day":"2026-01-01","labels":{"a":5,"b":[]}}'
    )
    events = [good, *(place.replace(b"%s", text) for place in PLACES for text in NO_JSON)]
    found = by_place(plan_of(spark, world, stage).records(source_of(spark, events)))
    topic, value, _ = found.pop(b"k0")
    plans = {name: of["plan"] for name, of in json.loads(value).items() if name.startswith("of") and of}
    assert (topic.rpartition(".")[2], plans) == (
        "out",
        {f"of{i}": ROWS[key]["plan"] for i, key in ((0, "ann"), (1, "ann"), (2, "5"), (3, "ann"), (8, "5"))},
    )
    assert {topic.rpartition(".")[2] for topic, _, _ in found.values()} == {"dlq"}


def test_the_stage_of_the_benchmark_that_spark_evaluates_is_one(spark, world):
    with contenders.lookups_by(contenders.EVALUATED):
        assert "as measured" in plan_of(spark, world, "plain").joined_by


@pytest.mark.parametrize("name", EVALUATED)
def test_a_stage_says_what_spark_evaluates(spark, world, name):
    assert EVALUATED[name][0] in plan_of(spark, world, name).joined_by
