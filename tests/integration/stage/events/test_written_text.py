"""The workers' JSON beside what Spark's `to_json` writes."""

import re

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as sql

from enrich.stage.events.text import json_text
from enrich.stage.formats.json_events import json_text as by_spark
from tests.support.seed import random_source, rounds
from tests.support.stores.column_values import FLOATS, OTHERS, random_type, random_values

ROWS = 300
_FLOATING = re.compile(r"-?\d+\.\d+(?:E-?\d+)?")


def shortest(text, kind):
    """The number in its shortest digits, in Java's form."""
    number = np.float32(text) if kind == pa.float32() else np.float64(text)
    mantissa, _, exponent = np.format_float_scientific(number, trim="0").partition("e")
    if number == 0 or 1e-3 <= np.abs(number) < 1e7:
        return np.format_float_positional(number, trim="0")
    return f"{mantissa}E{int(exponent)}"


def written_by_spark(spark, table):
    frame = spark.createDataFrame(table)
    texts = [by_spark(sql.struct(sql.col(f"`{name}`").alias("v"))).alias(name) for name in table.column_names]
    # Without {"v": and }.
    found = frame.select(*texts).toArrow()
    return {name: [text[5:-1] for text in found.column(name).to_pylist()] for name in found.column_names}


@pytest.mark.parametrize("example", range(rounds(2, 30)))
def test_values_of_every_type_are_written_as_spark_does(spark, example):
    source = random_source(f"written text {example}")
    kinds = [*OTHERS, *(random_type(source, OTHERS) for _ in range(15))]
    table = pa.table({f"c{i}": pa.array(random_values(source, kind, ROWS), kind) for i, kind in enumerate(kinds)})
    expected = written_by_spark(spark, table)
    for name, kind in zip(table.column_names, kinds, strict=True):
        values = table.column(name).combine_chunks()
        assert [text.decode() for text in json_text(values).to_pylist()] == expected[name], kind
        # As a slice, which Spark's batches are.
        assert json_text(values.slice(7, 50)).to_pylist() == json_text(values).to_pylist()[7:57], kind


@pytest.mark.parametrize("leaf", FLOATS)
def test_floating_point_numbers_are_those_of_spark_in_their_shortest_digits(spark, leaf):
    # Java writes more digits than needed for some numbers, and which depends on its version.
    source = random_source("written numbers")
    kinds = [leaf, pa.list_(leaf), *(random_type(source, (leaf, pa.bool_(), pa.int64())) for _ in range(5))]
    kinds = [kind for kind in kinds if "string" not in str(kind)]
    table = pa.table(
        {f"c{i}": pa.array(random_values(source, kind, rounds(1_000, 20_000)), kind) for i, kind in enumerate(kinds)}
    )
    expected = written_by_spark(spark, table)
    for name, kind in zip(table.column_names, kinds, strict=True):
        found = json_text(table.column(name).combine_chunks()).to_pylist()
        by_java = [_FLOATING.sub(lambda number: shortest(number[0], leaf), text) for text in expected[name]]
        assert [text.decode() for text in found] == by_java, kind
