"""What workers evaluate of users' expressions, against Spark itself: the same types and values, bit for bit."""

import random

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enrich.stage.compute.kernels import KERNELS
from enrich.stage.compute.kernels.text import TEXT
from tests.support.odd_columns import odd_rows
from tests.support.random_expressions import Expressions
from tests.support.seed import rounds
from tests.support.spark_answers import SparkAnswers

EXPRESSIONS, ROWS = rounds(40, 100), rounds(200, 400)


@pytest.fixture(scope="module")
def answers(spark) -> SparkAnswers:
    return SparkAnswers(spark)


def random_texts(source, count):
    writer = Expressions(source)
    return list(dict.fromkeys(writer.any(source.randint(1, 4)) for _ in range(count)))


@settings(max_examples=rounds(2, 200))
@given(st.integers(0, 2**32))
def test_random_expressions_have_the_answers_of_spark(answers, seed):
    source = random.Random(seed)
    answers.require_same(odd_rows(source, ROWS), random_texts(source, EXPRESSIONS))


@settings(max_examples=rounds(1, 50))
@given(st.integers(0, 2**32))
def test_they_are_those_of_the_code_that_spark_generates(answers, seed):
    source = random.Random(seed)
    answers.require_same(odd_rows(source, ROWS), random_texts(source, rounds(15, 40)), in_java=True)


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
