"""A whole read: each key once, in order, the same on every host whatever the order of the source."""

import pytest

from enrich.base.errors import ConfigError
from enrich.host.loaders import whole
from enrich.host.loaders.source import SOURCE_ROWS
from stores.protocol import KeyKind
from tests.support.host.listed_source import ListedSource
from tests.support.seed import random_source


def read(*batches, key=KeyKind.EXACT):
    return whole.read_whole(ListedSource(*batches), key, lambda _: None, lambda: False)


def pairs(found):
    return list(zip(*(found.rows[name].to_pylist() for name in SOURCE_ROWS.names), strict=True))


def test_rows_come_in_the_order_of_their_keys_and_what_was_left_out_is_counted():
    found = read([(b"b", b"1"), (b"", b"2")], [], [(b"a", b"3")])
    assert pairs(found) == [(b"", b"2"), (b"a", b"3"), (b"b", b"1")]
    assert found.left_out == {"are odd": 3}
    assert pairs(read()) == []


def test_of_rows_with_one_key_the_same_is_taken_in_whatever_order_they_come():
    rows = [(b"a", b"1"), (b"a", b"2"), (b"a", b"2"), (b"b", b"1"), (b"b", b"1"), (b"c", b"9"), (b"c", b"10")]
    random = random_source("loader-duplicates")
    expected = read(rows)
    assert pairs(expected) == [(b"a", b"2"), (b"b", b"1"), (b"c", b"9")]
    assert expected.left_out[next(r for r in expected.left_out if "key" in r)] == 2
    for _ in range(20):
        random.shuffle(rows)
        found = read(rows)
        assert pairs(found) == pairs(expected)
        assert found.digest() == expected.digest()


def test_a_digest_tells_reads_apart_that_join_to_the_same_bytes():
    digests = {read(rows).digest() for rows in ([(b"ab", b"c")], [(b"a", b"bc")], [(b"a", b"b"), (b"c", b"")], [])}
    assert len(digests) == 4


def test_networks_are_compared_as_the_store_writes_them():
    found = read([(b"10.1.2.3/8", b"1"), (b"10.0.0.0/8", b"2"), (b"nowhere", b"3")], key=KeyKind.CIDR)
    assert pairs(found) == [(b"10.0.0.0/8", b"2"), (b"nowhere", b"3")]


def test_a_source_too_large_for_this_is_refused_with_what_to_do_instead(monkeypatch):
    monkeypatch.setattr(whole, "LARGEST", 1 << 20)
    with pytest.raises(ConfigError, match="compacted topic"):
        read([(b"a", b"x" * (1 << 20))])
