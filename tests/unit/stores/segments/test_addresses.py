"""The compiled reader of addresses and networks is exactly as strict as the standard library."""

import ipaddress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.networks import parse_address
from stores.segments.loops.addresses import read_addresses
from stores.segments.sources import key_columns

NEARLY = st.text("0123456789abcdefABCDEF:./%gx ", max_size=45)
PARTS = st.lists(st.sampled_from(["", "0", "1", "ffff", "00000", "12345", "1.2.3.4", "256", "01"]), max_size=10)
TEXTS = st.one_of(
    NEARLY, PARTS.map(":".join), PARTS.map(".".join), st.ip_addresses().map(str), st.binary(max_size=6).map(bytes)
)


def as_bytes(text) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def read(texts: list[bytes]) -> list[int | None]:
    data, offsets = key_columns(pa.array(texts, pa.binary()))
    high, low, is_good = read_addresses(data, offsets[:-1], np.diff(offsets))
    numbers = [(int(a) << 64) | int(b) for a, b in zip(high, low, strict=True)]
    return [number if good else None for number, good in zip(numbers, is_good, strict=True)]


def expected_address(text: bytes) -> int | None:
    try:
        return parse_address(text)
    except ValueError:
        return None


@given(st.lists(TEXTS, max_size=20))
def test_addresses_are_read_as_the_standard_library_reads_them(texts):
    raw = [as_bytes(text) for text in texts]
    assert read(raw) == [expected_address(text) for text in raw]


@pytest.mark.parametrize(
    "text",
    ["::", "::1", "1::", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:1.2.3.4", "::1.2.3.4"],
)
def test_every_way_to_write_an_address_is_read(text):
    assert read([text.encode()]) == [int(ipaddress.ip_address(text))]


@pytest.mark.parametrize(
    "text",
    [
        ":", ":::", ":1", "1:", "1::2::3", "1:2:3:4:5:6:7:8:", "1:2:3:4:5:6:7:8::", "1::2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7:1.2.3.4", "1.2.3.4::", "::1.2.3", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.04", "1..2.3",
        " 1.2.3.4",
    ],
)  # fmt: skip
def test_what_only_looks_like_an_address_is_none(text):
    with pytest.raises(ValueError, match=r"\S"):
        ipaddress.ip_address(text)
    assert read([text.encode()]) == [None]
