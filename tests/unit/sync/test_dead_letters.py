"""A dead letter says why, where from, and holds the original bytes."""

import hashlib

import pytest

from enrich.admin.rejected.letter import _ADDED
from enrich.kafka.writing.dead_letters import DeadLetter, Origin, dead_letter, fitted, record_size


def test_a_dead_letter_has_the_form_of_the_design() -> None:
    origin = Origin("plays", 2, 77, b"k", b"\xff\x00", [("trace", b"1"), ("trace", b"2"), ("none", None)])
    letter = dead_letter(origin, "not JSON", stage="out", sender="p.sync.out/id", lookup="users")
    assert (letter.key, letter.value) == (b"plays/2/77/p.sync.out/id", b"\xff\x00")
    assert list(letter.headers) == [
        ("trace", b"1"),
        ("trace", b"2"),
        ("none", None),
        ("enrich.reason", b"not JSON"),
        ("enrich.stage", b"out"),
        ("enrich.lookup", b"users"),
        ("enrich.topic", b"plays"),
        ("enrich.partition", b"2"),
        ("enrich.offset", b"77"),
        ("enrich.key", b"k"),
        ("enrich.length", b"2"),
        ("enrich.sha256", hashlib.sha256(b"\xff\x00").hexdigest().encode()),
    ]


def test_a_value_that_is_too_large_is_cut_and_told_whole_by_length_and_digest() -> None:
    letter = dead_letter(Origin("t", 0, 0, None, b"x" * 100), "too large", stage="s", sender="p.s", largest_value=10)
    headers = dict(letter.headers)
    assert letter.value == b"x" * 10
    assert headers["enrich.length"] == b"100"
    assert headers["enrich.sha256"] == hashlib.sha256(b"x" * 100).hexdigest().encode()
    assert "enrich.key" not in headers and "enrich.lookup" not in headers


def test_a_null_value_becomes_an_empty_one() -> None:
    assert dead_letter(Origin("t", 0, 0, b"k", None), "x", stage="s", sender="p.s").value == b""


def test_a_record_that_was_dead_before_gets_the_new_reason_once() -> None:
    before = dead_letter(Origin("t", 0, 0, b"k", b"v"), "first", stage="s", sender="p.s")
    again = dead_letter(
        Origin("dlq", 1, 5, before.key, before.value, before.headers), "second", stage="s", sender="p.s"
    )
    assert [content for name, content in again.headers if name == "enrich.reason"] == [b"second"]


@pytest.mark.parametrize("room", [2_000, 20_000, 500_000])
@pytest.mark.parametrize(
    "origin",
    [
        Origin("t", 0, 7, b"k", b"v" * 600_000),
        Origin("t", 0, 7, b"k" * 600_000, b"v" * 600_000),
        Origin("t", 0, 7, b"k", b"v", [("trace", b"x" * 600_000)]),
        Origin("t", 0, 7, b"k" * 600_000, None, [("enrich.version", b"5"), *[(f"h{n}", b"") for n in range(50_000)]]),
    ],
    ids=["value", "key and value", "header", "key and headers"],
)
def test_whatever_is_large_a_letter_is_cut_until_it_fits_and_says_what_it_was(origin: Origin, room: int) -> None:
    letter = fitted(dead_letter(origin, "why " * 1_000, stage="s", sender="p.s", largest_value=10**9), room)
    assert letter is not None and record_size(letter.key, letter.value, letter.headers) <= room
    told = dict(letter.headers)
    assert letter.key == b"t/0/7/p.s" and (told["enrich.reason"] or b"").startswith(b"why")
    assert told["enrich.length"] == str(len(origin.value or b"")).encode()
    assert told["enrich.sha256"] == hashlib.sha256(origin.value or b"").hexdigest().encode()
    key = told["enrich.key"] or b""
    if len(key) < len(origin.key or b""):
        assert told["enrich.key_length"] == str(len(origin.key or b"")).encode()
        assert told["enrich.key_sha256"] == hashlib.sha256(origin.key or b"").hexdigest().encode()
    assert ("trace" in told or "h7" in told) == bool(origin.headers and "enrich.headers_left_out" not in told)
    assert {name for name in told if name.startswith("enrich.")} <= {*_ADDED, "enrich.version"}


def test_a_letter_that_fits_is_left_as_it_is_and_one_that_cannot_is_none() -> None:
    letter = dead_letter(Origin("t", 0, 7, b"k", b"v"), "why", stage="s", sender="p.s")
    assert fitted(letter, 10_000) is letter
    assert fitted(letter, 100) is None
    assert fitted(DeadLetter(b"k" * 500, b"", []), 300) is None
