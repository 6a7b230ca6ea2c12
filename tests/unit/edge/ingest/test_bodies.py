"""A compressed body becomes plain bytes or is refused: never more bytes than allowed, never a part for the whole."""

import gzip
import tracemalloc
from http import HTTPStatus
from random import Random

import brotli  # type: ignore[import-untyped] # it has no types
import pytest
import zstandard

from edge_service.ingest.reading.bodies import plain
from edge_service.ingest.reading.refusals import Refused

CODINGS = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress, "br": brotli.compress}
TEXT = b'{"a": 1}\n' * 1000

each_coding = pytest.mark.parametrize("coding", list(CODINGS))


def status(body, coding, most=1 << 20):
    with pytest.raises(Refused) as raised:
        plain(body, coding, most)
    return raised.value.status


@each_coding
def test_it_is_what_it_was(coding):
    assert plain(CODINGS[coding](TEXT), coding.upper(), len(TEXT)) == TEXT


def test_without_a_coding_it_is_as_it_is():
    assert plain(TEXT, "", 1) == plain(TEXT, "identity", 1) == TEXT


def test_another_coding_is_refused():
    assert status(TEXT, "deflate") == status(TEXT, "gzip, gzip") == HTTPStatus.UNSUPPORTED_MEDIA_TYPE


@each_coding
def test_one_byte_too_many_is_too_large(coding):
    assert status(CODINGS[coding](TEXT), coding, len(TEXT) - 1) == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@each_coding
def test_a_body_that_inflates_to_half_a_gigabyte_takes_no_more_than_allowed(coding):
    bomb = CODINGS[coding](bytes(64 << 20))  # a tenth of the way shows it
    tracemalloc.start()
    try:
        assert status(bomb, coding) == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@each_coding
def test_a_body_that_is_cut_anywhere_is_refused(coding):
    whole = CODINGS[coding](TEXT)
    assert {status(whole[:length], coding) for length in range(len(whole))} == {HTTPStatus.BAD_REQUEST}


@each_coding
def test_what_is_no_such_body_is_refused(coding):
    assert status(b"no such thing", coding) == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_members_one_after_the_other_are_one_body(coding):
    assert plain(CODINGS[coding](TEXT) + CODINGS[coding](TEXT), coding, 1 << 20) == TEXT + TEXT
    assert status(CODINGS[coding](TEXT) + b"rest", coding) == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_body_of_many_small_members_is_refused(coding):
    """The time for each grew with all that came after it: a megabyte took seconds."""
    part = CODINGS[coding](b"{}\n")
    assert plain(part * 64, coding, 1 << 20) == b"{}\n" * 64
    with pytest.raises(Refused, match="more than 64 members or frames") as raised:
        plain(part * 65, coding, 1 << 20)
    assert raised.value.status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 200_000])
def test_a_body_that_is_inflated_in_several_steps_is_what_it_was(coding, size):
    """Of bytes that cannot be made shorter, so that a member ends before, at and after the end of a step."""
    random = Random(size)
    frame = len(CODINGS[coding](random.randbytes(size))) - size
    parts = [random.randbytes(size - frame) for _ in range(3)]
    assert plain(b"".join(map(CODINGS[coding], parts)), coding, 1 << 20) == b"".join(parts)
