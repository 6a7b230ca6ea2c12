"""What workers evaluate of users' expressions, against Spark itself: the same types and values, bit for bit."""

import random

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enrich.stage.compute import NotCompiled
from enrich.stage.compute.kernels import KERNELS
from enrich.stage.compute.kernels.text import TEXT
from enrich.stage.compute.nodes import Call
from tests.support.seed import random_source, rounds
from tests.support.spark.answers import SparkAnswers
from tests.support.spark.odd_columns import odd_rows
from tests.support.spark.random_expressions import Expressions

EXPRESSIONS, ROWS = rounds(40, 100), rounds(200, 400)


@pytest.fixture(scope="module")
def answers(spark) -> SparkAnswers:
    return SparkAnswers(spark)


def random_texts(source, count):
    writer = Expressions(source)
    return list(dict.fromkeys(writer.any(source.randint(1, 4)) for _ in range(count)))


@settings(max_examples=rounds(2, 100))
@given(st.integers(0, 2**32))
def test_random_expressions_have_the_answers_of_spark(answers, seed):
    source = random.Random(seed)
    texts = random_texts(source, EXPRESSIONS)
    # Most of them are compared: the others have a part that workers leave to Spark.
    assert answers.require_same(odd_rows(source, ROWS), texts) > len(texts) / 2


@settings(max_examples=rounds(1, 30))
@given(st.integers(0, 2**32))
def test_they_are_those_of_the_code_that_spark_generates(answers, seed):
    source = random.Random(seed)
    answers.require_same(odd_rows(source, ROWS), random_texts(source, rounds(15, 40)), in_java=True)


EVERY = [
    *["S", "device.DEEP.x", "nvl(s, 'x')", "nullif(s, w)", "i BETWEEN b AND 100", "nvl2(s, i, l)", "zeroifnull(i)"],
    *["device IS NULL", "tags IS NOT NULL"],
    *["o AND r", "o OR r", "NOT o", "s IS NULL", "d IS NOT NULL", "coalesce(s, w, 'x')", "if(o, s, w)", "s <=> w"],
    *[
        "CASE WHEN o THEN i WHEN r THEN j END",
        "s = w",
        "s < w",
        "d <= e",
        "f > d",
        "d >= e",
        "m > p",
        "t < v",
        "y < X'62'",
    ],
    *[
        "w IN ('a', 'yes')",
        "w NOT IN ('a', NULL)",
        "d IN (e, 1.5, NULL)",
        "i IN (j, 1)",
        "named_struct('a', s, 'b', i + 1)",
    ],
    *["lower(s)", "upper(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "s || w", "concat_ws(w, s, u, z)", "length(s)"],
    *["substring(s, -2, 1)", "left(s, 2)", "right(s, 1)", "replace(s, 'a', 'bc')"],
    *["startswith(s, 'a')", "endswith(s, 'b')", "contains(s, 'Σ')", "s LIKE 'a%'", "s LIKE '%_b%'", "s LIKE 'x\\\\_y'"],
    *["CAST(l AS int)", "CAST(l AS float)", "CAST(l AS boolean)", "CAST(l AS string)", "CAST(l AS timestamp)"],
    *["CAST(l AS decimal(10,2))", "CAST(d AS float)", "CAST(d AS bigint)", "CAST(f AS smallint)", "CAST(d AS boolean)"],
    *["CAST(p AS decimal(10,2))", "CAST(p AS int)", "CAST(p AS double)", "CAST(q AS boolean)", "CAST(p AS string)"],
    *["CAST(o AS string)", "CAST(o AS int)", "CAST(o AS double)", "CAST(NULL AS int)", "CAST(u AS bigint)"],
    *["CAST(u AS tinyint)", "CAST(w AS boolean)", "CAST(u AS double)", "CAST(u AS float)", "CAST(u AS decimal(10,2))"],
    *["CAST(z AS date)", "CAST(t AS bigint)", "CAST(t AS double)", "CAST(t AS date)", "CAST(t AS string)"],
    *["CAST(a AS timestamp)", "CAST(a AS string)", "t > '2020-01-01'", "to_date(z)", "to_date(z, 'yyyy-MM-dd')"],
    *["to_timestamp(z, 'yyyy-MM-dd HH:mm:ss')", "to_timestamp(z, \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\")"],
    *[
        "i + j",
        "l - k",
        "h * h",
        "m + q",
        "m * q",
        "d / e",
        "l div k",
        "i % j",
        "d % e",
        "-b",
        "abs(i)",
        "-m",
        "abs(d)",
    ],
    *["timestamp_seconds(l)", "timestamp_millis(l)", "timestamp_micros(l)"],
    *[
        "struct(timestamp_millis(l) AS m, lower(s) AS s)",
        "struct(timestamp_millis(l) AS m, 'a' AS constant)",
        "coalesce(to_timestamp(z, 'yyyy-MM-dd'), t)",
    ],
    *["timestamp_millis(l) > t AND o", "timestamp_millis(l) < v OR i IN (1, j)", "struct(i % unix_millis(t) AS r)"],
    *["timestamp_millis(l) BETWEEN t AND v", "coalesce(date_trunc('week', timestamp_micros(l)), t)"],
    *["size(tags)", "tags[0]", "element_at(tags, -1)", "array_contains(tags, s)", "CAST(s AS binary)"],
    *["unix_seconds(t)", "unix_millis(t)", "unix_micros(t)", "CAST('2024-02-29 10:00' AS timestamp)"],
    "coalesce(CAST(coalesce(a, DATE '+300000-01-01') AS timestamp), t)",
    *(f"date_trunc('{unit}', t)" for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")),
    *(f"{part}(t)" for part in ("year", "month", "day", "hour", "minute", "second")),
]


REFUSED = [
    *[
        "CAST(d AS string)",
        "CAST(z AS timestamp)",
        "to_timestamp(z)",
        "t > '12:30'",
        "CAST(y AS string)",
        "s RLIKE 'a'",
    ],
    *[
        "m / q",
        "p + 1",
        "-p",
        "d IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)",
        "try_add(i, j)",
        "try_cast(d AS int)",
        "rand()",
    ],
    *[
        "current_timestamp()",
        "s LIKE w",
        "s LIKE 'a!%' ESCAPE '!'",
        "trim(BOTH 'a' FROM s)",
        "to_timestamp(z, 'yyyyMMdd')",
    ],
    *["CAST(nullif('2024-02-29', 'x') AS timestamp)", "CAST(DATE '+300000-01-01' AS timestamp)"],
    # A failure would not be told from a null, or Spark does not look at what fails.
    *["if(o, timestamp_millis(l), t)", "coalesce(t, timestamp_millis(l))", "o OR timestamp_millis(l) > t"],
    *["timestamp_millis(l) > t AND false", "timestamp_millis(l) IS NULL", "element_at(tags, 0)"],
    *["struct(unix_millis(timestamp_millis(l)) % i AS r)", "timestamp_millis(l) > t OR (o IS NULL OR o IS NOT NULL)"],
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_equal_is_left_to_spark(answers, text):
    found = answers.compiler.compile(text)
    assert isinstance(found, NotCompiled)
    assert found.reason.startswith(f"Spark evaluates `{text}`, since ")


def functions(node):
    if isinstance(node, Call):
        return {node.function}.union(*map(functions, node.arguments))
    return set()


@pytest.mark.parametrize("in_java", [False, True], ids=["trees", "generated code"])
def test_every_function_of_the_workers_has_the_answers_of_spark(answers, in_java):
    found = [answers.compiled(text) for text in EVERY]
    assert [text for text, each in zip(EVERY, found, strict=True) if each is None] == []
    assert set(KERNELS) - set().union(*(functions(each.root) for each in found)) == set()
    answers.require_same(odd_rows(random_source("every function"), rounds(600, 20_000)), EVERY, in_java=in_java)


WRONG = {
    "lower": ("lower(s)", lambda _, values: pc.utf8_lower(values[0])),
    "trim": ("trim(s)", lambda _, values: pc.utf8_trim_whitespace(values[0])),
    "less": ("d < e", lambda _, values: pc.less(*values)),
    "or": ("o OR r", lambda _, values: pc.or_(*values)),
    "concat_with": ("concat_ws('-', s, w)", TEXT["concat"]),
    "add": ("b + b", lambda _, values: pc.add(*values).cast("i8").cast("i1").fill_null(0)),
    "fitted": ("CAST(p AS decimal(38,2))", lambda call, values: values[0].cast(call.kind, safe=False)),
    "truncated": ("date_trunc('week', t)", lambda _, values: pc.floor_temporal(values[0], 7, "day")),
}


@pytest.mark.parametrize("function", WRONG)
def test_a_wrong_kernel_would_be_found(answers, monkeypatch, function):
    text, kernel = WRONG[function]
    rows = odd_rows(random.Random(1), 400)
    assert answers.require_same(rows, [text]) == 1
    monkeypatch.setitem(KERNELS, function, kernel)
    with pytest.raises(AssertionError, match="workers and Spark differ"):
        answers.require_same(rows, [text])
