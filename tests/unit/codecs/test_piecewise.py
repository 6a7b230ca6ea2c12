"""How far decoding gets with a bad value: each column by itself."""

import pytest

from enrich.codecs import pieces_of
from enrich.config import Table

AVRO = '{"type":"record","name":"r","fields":[{"name":"plan","type":"string"},{"name":"rps","type":"int"}]}'


def outcomes(value: bytes, **section):
    table = Table.model_validate({"topic": "t", "columns": "plan string, rps int", **section})
    return [(piece.column, piece.value if piece.reason is None else piece.reason) for piece in pieces_of(table, value)]


def test_columns_that_fit_are_shown_beside_those_that_do_not():
    assert outcomes(b'{"plan": 5, "rps": 7}', format="json") == [
        ("plan", "plan: expected text, got a whole number"),
        ("rps", 7),
    ]


def test_what_is_no_json_at_all_is_said_for_each_column():
    reasons = {reason for _, reason in outcomes(b"no json", format="json")}
    assert len(reasons) == 1
    assert None not in reasons


def test_a_body_that_is_cut_short_fails_for_every_column_that_needs_it():
    assert [name for name, _ in outcomes(b"\x06pr", format="avro", schema=AVRO)] == ["plan", "rps"]


@pytest.mark.parametrize("value", [b"\xff", b"\xfe\xfe"])
def test_text_that_is_not_utf_8_is_said(value):
    assert outcomes(value, format="string", columns="value string") == [("value", "not UTF-8 text")]
