"""Headers of other people are believed only if they are what they should be."""

import pytest

from enrich.kafka.identity import event_time_of, identity_of, origin_of


@pytest.mark.parametrize("content", [b"plays.raw/0/0", b"p/2147483647/9223372036854775807"])
def test_a_place_is_an_origin(content):
    place, offset = origin_of(content) or (b"", -1)
    assert b"%b/%d" % (place, offset) == content


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"plays.raw/0",
        b"plays.raw/00/1",
        b"plays.raw/0/01",
        b"plays.raw/2147483648/1",
        b"plays.raw/0/9223372036854775808",
        b"plays raw/0/1",
        b"plays.raw/0/1\r\nx: y",
        b"plays.raw/-1/1",
    ],
)
def test_what_is_no_place_is_none(content):
    assert origin_of(content) is None


def test_times_are_whole_numbers():
    assert [event_time_of(each) for each in (b"5", b"-5", b"", b"5.0", b"x", None, b"9" * 30)] == [5, -5, *[None] * 5]


def test_of_several_headers_the_first_good_origin_counts_and_the_last_good_time():
    headers = [
        ("enrich.origin", b"?"),
        ("enrich.origin", b"a/0/1"),
        ("enrich.origin", b"b/0/2"),
        ("enrich.event_time", b"5"),
        ("enrich.event_time", b"7"),
        ("enrich.event_time", None),
    ]
    assert identity_of(headers) == ((b"a/0", 1), 7)
    assert identity_of([]) == (None, None)
