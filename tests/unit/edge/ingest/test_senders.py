"""Senders are found by their tokens, and the columns of a row mean what the documentation says."""

import pytest

from edge_service.ingest.senders.senders import digest_of, token_of
from edge_service.ingest.senders.tenants import _tenant
from edge_service.ingest.wire.connection import Request


def test_what_a_row_leaves_out_is_not_limited():
    assert (_tenant("d", {}).topics, _tenant("d", {}).events_per_s, _tenant("d", {}).bytes_per_s) == (None, None, None)
    assert _tenant("d", {"topics": []}).topics == frozenset()
    assert _tenant("d", {"topics": "a, b ,,c"}).topics == frozenset("abc")
    assert _tenant("d", {"topics": ["a"], "events_per_s": 5}).events_per_s == 5


def test_a_rate_that_is_no_number_allows_nothing_and_an_infinite_one_everything():
    rates = [_tenant("d", {"bytes_per_s": rate}).bytes_per_s for rate in (1.5, 0, float("nan"), float("inf"))]
    assert rates == [1.5, 0.0, 0.0, None]


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (b"Bearer abc", b"abc"),
        (b"bearer  abc ", b"abc"),
        (b"Bearer", None),
        (b"Bearer ", None),
        (b"Basic abc", None),
        (b"", None),
    ],
)
def test_a_token_is_what_the_header_says(header, token):
    assert token_of(Request("POST", "/", {b"authorization": header})) == token
    assert token_of(Request("POST", "/", {})) is None


def test_a_token_stands_in_the_table_by_its_sha_256():
    # printf %s secret | sha256sum
    assert digest_of(b"secret") == "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
