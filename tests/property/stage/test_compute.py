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

EXPRESSIONS, ROWS = rounds(60, 150), rounds(200, 400)


@pytest.fixture(scope="module")
def answers(spark) -> SparkAnswers:
    return SparkAnswers(spark)


@settings(max_examples=rounds(4, 150))
@given(st.integers(0, 2**32))
def test_random_expressions_have_the_answers_of_spark(answers, seed):
    source = random.Random(seed)
    writer = Expressions(source)
    texts = list(dict.fromkeys(writer.any(source.randint(1, 4)) for _ in range(EXPRESSIONS)))
    answers.require_same(odd_rows(source, ROWS), texts)


WRONG = {
    "lower": ("lower(s)", lambda _, values: pc.utf8_lower(values[0])),
    "trim": ("trim(s)", lambda _, values: pc.utf8_trim_whitespace(values[0])),
    "less": ("d < e", lambda _, values: pc.less(*values)),
    "or": ("o OR r", lambda _, values: pc.or_(*values)),
    "concat_with": ("concat_ws('-', s, w)", TEXT["concat"]),
}


@pytest.mark.parametrize("function", WRONG)
def test_a_wrong_kernel_would_be_found(answers, monkeypatch, function):
    text, kernel = WRONG[function]
    rows = odd_rows(random.Random(1), 400)
    assert answers.require_same(rows, [text]) == 1
    monkeypatch.setitem(KERNELS, function, kernel)
    with pytest.raises(AssertionError, match="workers and Spark differ"):
        answers.require_same(rows, [text])
