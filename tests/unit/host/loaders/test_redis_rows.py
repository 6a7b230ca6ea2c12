"""How keys and values of a Redis become keys and values of a table."""

import json

import pyarrow as pa
import pytest

from enrich.codecs import JsonDecoder
from enrich.codecs.json.hashes import HashRows
from stores.external.redis.reading import fixed_beginning

COLUMNS = pa.schema(
    [("plan", pa.string()), ("rps", pa.int32()), ("since", pa.date32()), ("limits", pa.struct([("burst", pa.int32())]))]
)


@pytest.mark.parametrize(
    ("pattern", "beginning"),
    [
        ("", ""),
        ("*", ""),
        ("limit:*", "limit:"),
        ("limit:*:v1", "limit:"),
        ("limit:[ab]?", "limit:"),
        ("limit:acme", "limit:acme"),
        (r"a\*b*", "a*b"),
        (r"a\\*", "a\\"),
    ],
)
def test_the_keys_of_a_pattern_share_what_stands_before_its_first_special_character(pattern, beginning):
    assert fixed_beginning(pattern) == beginning


def decoded(**fields):
    value = HashRows(COLUMNS).as_json({name.encode(): text for name, text in fields.items()})
    decoded = JsonDecoder(COLUMNS).decode(pa.array([value], pa.binary()))
    return decoded.bad.get(0) or {k: v for k, v in decoded.rows.to_pylist()[0].items() if v is not None}


def test_a_hash_is_a_row_whose_fields_have_the_types_of_the_columns():
    fields = decoded(
        plan=b'pro "max"', rps=b"5", since=b"2026-02-28", limits=b'{"burst": 2}', other=b"x", _version=b"7"
    )
    assert json.dumps(fields, default=str) == json.dumps(
        {"plan": 'pro "max"', "rps": 5, "since": "2026-02-28", "limits": {"burst": 2}}
    )
    assert decoded(plan=b"", rps=b"null") == {"plan": ""}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"five", "rps: expected a whole number, got text"),
        (b"", "rps: expected a whole number, got text"),
        (b'1, "plan": "pro"', "rps: expected a whole number, got text"),
        (b'"5"', "rps: expected a whole number, got text"),
    ],
)
def test_a_field_that_does_not_fit_its_column_makes_the_row_bad_and_no_other_field(text, reason):
    assert decoded(rps=text) == reason
