"""Numbers far below zero: Arrow would end the process at one, or take it for 0, in a decimal column."""

import json
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from enrich.codecs import JsonDecoder
from enrich.codecs.json.fast import Doubt, FastJson, plausible
from stores.json_text import tiny_exponents

COLUMNS = pa.schema([("c", pa.decimal128(10, 2)), ("d", pa.list_(pa.struct([("e", pa.decimal128(38, 10))])))])
TINY = [
    "1E-2147483647",
    "1e-2147483647",
    "-1.50E-2147483647",
    "1E-00002147483647",
    '"1E-2147483647"',
    '".5e-2147483647"',
    '"+1E-2147483647"',
    r'"1\u0045-2147483647"',
    r'"1\u0065\u002d2147483647"',
    r'"1E\u002D2147483647"',
    r'"1E-\u0032147483647"',
    r'"1E-2\u0031474836"',
    r'"1\u002eE-2147483647"',
    r'"\u002b1E-2147483647"',
    r'"\u00311E-2147483647"',
    r'"\u002e5E-2147483647"',
]
PLACES = '{"c":%s}', '{"x":1,"d":[{"e":1}, {"e": %s}]}'
DECODED = """
import json, sys
import pyarrow as pa
from enrich.codecs import JsonDecoder
from tests.unit.codecs.test_json_decimals import COLUMNS
for value in json.load(sys.stdin):
    decoded = JsonDecoder(COLUMNS).decode(pa.array([value.encode()] * 100, pa.binary()))
    assert len(decoded.bad) == 100 and decoded.bad[0].endswith("cannot hold the value"), (value, decoded.bad)
"""


def test_one_ends_no_process_and_is_bad():
    values = [place % number for place in PLACES for number in TINY]
    assert all(str(json.loads(value, parse_float=str)).lower().count("e-") == 1 for value in values)
    command = [sys.executable, "-c", DECODED]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_none_is_taken_for_zero():
    numbers = [
        f"{sign}{mantissa}E-{exponent}"
        for sign in ("", "-")
        for mantissa in ("1", "12.5")
        for exponent in range(30, 1000)
    ]
    values = pa.array([b'{"c":%b}' % number.encode() for number in numbers], pa.binary())
    assert len(JsonDecoder(COLUMNS).decode(values).bad) == len(numbers)


def test_zeros_are_zero_however_they_are_written():
    values = pa.array([b'{"c":0E-2147483647}', b'{"c":-0.0e-99}', b'{"c":0e-5}'] * 50, pa.binary())
    decoded = JsonDecoder(COLUMNS).decode(values)
    assert decoded.bad == {}
    assert {row["c"] for row in decoded.rows.to_pylist()} == {Decimal("0.00")}


@pytest.mark.parametrize(
    "value",
    [
        {"c": "12.30", "x": "node-12 e-mail 2026-02-28 7fe-41 employee-12"},
        {"c": "1.5", "x": "3f2b6c1e-9a0b-4d2e-8f7e-1c2d3e4f5a6b"},
        {"c": -1.5, "x": "\x01\n ü & <"},
    ],
)
def test_ordinary_values_still_go_the_fast_way(value):
    kind = pa.struct(list(COLUMNS))
    values = pa.array([json.dumps(value).replace("&", r"\u0026").encode()] * 3, pa.binary())
    assert plausible(values, kind).all()
    assert not isinstance(FastJson(kind).rows(values), Doubt)


def test_few_ids_look_like_one():
    digits = np.random.default_rng(1).integers(0, 16, (100_000, 32))
    texts = ["".join(f"{digit:x}" for digit in each) for each in digits]
    ids = [f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}".encode() for text in texts]
    content = np.frombuffer(b'"' + b'","'.join(ids) + b'"', np.uint8)
    assert len(tiny_exponents(content)) < 3_000
