"""A dead letter is found and goes back whatever headers its record had brought."""

import pytest
from confluent_kafka import Message

from enrich.admin.rejected.letter import Letter, letter_of
from enrich.kafka.writing.dead_letters import Origin, dead_letter

Headers = list[tuple[str, bytes | None]]


def letter(brought: Headers, added: Headers | None = None) -> Letter | None:
    made = dead_letter(Origin("plays", 2, 77, b"k", b"v", brought), "no", stage="joined", sender="p.joined/id")
    headers: list[tuple[str, str | bytes | None]] = [*made.headers, *(added or [])]
    return letter_of(
        "dlq", Message(topic="dlq", partition=0, offset=1, key=made.key, value=made.value, headers=headers)
    )


@pytest.mark.parametrize("content", [None, b"", b"often", b"-1", b"1.5", b"9" * 5000])
def test_a_count_of_replays_that_is_none_hides_no_letter(content: bytes | None) -> None:
    found = letter([("enrich.replays", content)])
    assert found is not None
    assert (found.replays, found.place) == (0, ("plays", 2, 77))


def test_replays_are_counted() -> None:
    found = letter([("enrich.replays", b"3")])
    assert found is not None
    assert found.replays == 3


def test_the_route_that_a_stage_names_is_no_header_of_the_record() -> None:
    found = letter([("trace", b"t")], [("enrich.route", b"pro")])
    assert found is not None
    assert found.headers == [("trace", b"t")]
