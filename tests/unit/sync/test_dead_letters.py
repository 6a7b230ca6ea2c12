"""A dead letter says why, where from, and holds the original bytes."""

import hashlib

from enrich.kafka.dead_letters import Origin, dead_letter


def test_a_dead_letter_has_the_form_of_the_design() -> None:
    origin = Origin("plays", 2, 77, b"k", b"\xff\x00", [("trace", b"1"), ("trace", b"2"), ("none", None)])
    letter = dead_letter(origin, "not JSON", stage="out", lookup="users")
    assert (letter.key, letter.value) == (b"plays/2/77", b"\xff\x00")
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
    letter = dead_letter(Origin("t", 0, 0, None, b"x" * 100), "too large", stage="s", largest_value=10)
    headers = dict(letter.headers)
    assert letter.value == b"x" * 10
    assert headers["enrich.length"] == b"100"
    assert headers["enrich.sha256"] == hashlib.sha256(b"x" * 100).hexdigest().encode()
    assert "enrich.key" not in headers and "enrich.lookup" not in headers


def test_a_null_value_becomes_an_empty_one() -> None:
    assert dead_letter(Origin("t", 0, 0, b"k", None), "x", stage="s").value == b""


def test_a_record_that_was_dead_before_gets_the_new_reason_once() -> None:
    before = dead_letter(Origin("t", 0, 0, b"k", b"v"), "first", stage="s")
    again = dead_letter(Origin("dlq", 1, 5, before.key, before.value, before.headers), "second", stage="s")
    assert [content for name, content in again.headers if name == "enrich.reason"] == [b"second"]
