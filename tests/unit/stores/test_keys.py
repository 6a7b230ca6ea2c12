"""What is asked for in one form, whatever stands in an event."""

import numpy as np
import pyarrow as pa
import pytest

from stores.keys import key_bytes, milliseconds

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
NO_UTF8 = b"\xff\xfe"


def text(*values: bytes | None) -> pa.Array:
    """As a JVM or a parser hands it over, which need not have looked at it."""
    return pa.array(values, pa.binary()).view(pa.string())


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize(("unit", "per_ms"), [("ns", 1_000_000), ("us", 1_000), ("ms", 1)])
def test_every_time_is_rounded_down_to_a_millisecond(unit, per_ms, zone):
    times = [0, -1, 1, 999, -1_000, 144115188075855872, -144115188075855872, MOST, MOST - 1, LEAST, LEAST + 1, None]
    asked = pa.array(times, pa.timestamp(unit, tz=zone))
    expected = [None if time is None else time // per_ms for time in times]
    assert milliseconds(asked).to_pylist() == expected
    assert milliseconds(asked.slice(3, 6)).to_pylist() == expected[3:9]


def test_a_time_too_far_off_for_milliseconds_stays_as_far_off_as_they_go():
    seconds = [MOST, MOST // 1_000 + 1, MOST // 1_000, 7, LEAST // 1_000 + 1, LEAST // 1_000, LEAST, None]
    found = milliseconds(pa.array(seconds, pa.timestamp("s", tz="UTC"))).to_pylist()
    assert found == [MOST, MOST, MOST // 1_000 * 1_000, 7_000, (LEAST // 1_000 + 1) * 1_000, LEAST, LEAST, None]


def test_no_time_at_all_stays_null():
    assert milliseconds(pa.nulls(2)).to_pylist() == [None, None]
    assert milliseconds(pa.array([], pa.timestamp("us"))).to_pylist() == []


def test_a_composite_key_keeps_bytes_that_are_no_text_also_beside_parts_that_are_escaped():
    parts = [text(b'a"b', NO_UTF8, b'"' + NO_UTF8, b"plain", None, "ü\n".encode()), pa.array([1, 2, 3, 4, 5, 6])]
    found = key_bytes(pa.StructArray.from_arrays(parts, ["one", "two"])).to_pylist()
    assert found == [
        b'["a\\"b",1]',
        b'["' + NO_UTF8 + b'",2]',
        b'["\\"' + NO_UTF8 + b'",3]',
        b'["plain",4]',
        None,
        '["ü\\n",6]'.encode(),
    ]
    whole = pa.StructArray.from_arrays(parts, ["one", "two"])
    assert [key_bytes(whole.slice(at, 1)).to_pylist()[0] for at in range(len(whole))] == found
