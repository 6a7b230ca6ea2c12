"""Whatever stands in the headers of a record: an event has a place, an age and an origin that can be sent."""

import pytest
from confluent_kafka import Message

from edge_service.expel.lane.events import Batch, Event, Lease, Origins, has_body, origins_of
from enrich.kafka.identity import ORIGIN
from enrich.kafka.retries import OFFSET, PARTITION, TIMESTAMP, TOPIC, TRIES, retry_headers

Headers = list[tuple[str, bytes | None]]


def event(headers: Headers, *, comes_back: bool = False, offset: int = 7, value: bytes | None = b"1") -> Event:
    topic = "out" if comes_back else "events"
    message = Message(
        topic=topic, partition=2, offset=offset, key=b"k", value=value, timestamp=(1, 1234), headers=[*headers]
    )
    return Event(message, Lease((topic, 2), "events" if comes_back else None), 0.0)


def test_an_event_that_comes_back_is_what_it_was():
    back = event([*retry_headers(("events", 2, 99), 555, 3)], comes_back=True)
    assert (back.place, back.since_ms, back.tries) == (("events", 2, 99), 555, 3)
    assert origins_of([back]) == "events/2/99"
    assert not back.is_first_read


def test_headers_of_retries_mean_nothing_in_the_topic_of_the_route():
    fresh = event([*retry_headers(("events", 0, 1), 5, 8)])
    assert (fresh.place, fresh.since_ms, fresh.tries, fresh.is_first_read) == (("events", 2, 7), 1234, 0, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {TRIES: b"9" * 5000},
        {TRIES: b"-1", TIMESTAMP: b"1e9"},
        {TIMESTAMP: b"9" * 5000},
        {TOPIC: b"events\r\nx: y"},
        {TOPIC: b"\xff"},
        {TOPIC: b"another"},
        {PARTITION: b"-3"},
        {PARTITION: b"9" * 5000},
        {OFFSET: b"9" * 100},
        {OFFSET: None},
        {ORIGIN: b"a/1/2\r\nx: y"},
        {ORIGIN: b"a" * 5000 + b"/1/2"},
        {ORIGIN: b""},
        {ORIGIN: None},
    ],
)
def test_headers_that_are_wrong_are_taken_for_missing(wrong: dict[str, bytes | None]):
    headers: dict[str, bytes | None] = dict(retry_headers(("events", 2, 99), 555, 3))
    back = event(list((headers | wrong).items()), comes_back=True)
    assert back.place in (("events", 2, 99), ("out", 2, 7))
    assert back.tries in (0, 3)
    assert back.since_ms in (555, 1234)
    assert origins_of([back]) in ("events/2/99", "out/2/7")


@pytest.mark.parametrize("value", [None, b"", b" \r\n"])
def test_a_value_of_nothing_has_no_body(value: bytes | None):
    assert not has_body(event([], value=value))


def test_the_header_of_origins_never_passes_its_bound():
    origins, taken = Origins(), list[Event]()
    for number in range(10_000):
        one = event([(ORIGIN, b"%b/2147483647/%d" % (b"t" * 249, 10**18 + 2 * number))])
        if taken and not origins.has_room(one):
            break
        origins.add(one)
        taken.append(one)
    assert 10 < len(taken) < 20
    assert len(origins.text()) <= 4096


SENDER = "pipeline.expel.route"


def id_of(*events: Event, sender: str = SENDER) -> str:
    return Batch(events).message_id(sender)


def test_the_same_events_sent_again_together_have_the_same_id_and_with_others_another():
    first, second = event([]), event([], offset=8)
    assert id_of(first, second) == id_of(event([]), event([], offset=8))
    halves = Batch([first, second]).halved()
    rest = halves.following()
    assert rest is not None
    ids = [id_of(first, second), halves.message_id(SENDER), rest.message_id(SENDER)]
    assert len({*ids, id_of(first), id_of(first, second, event([], offset=9))}) == 4
    assert halves.message_id(SENDER) == id_of(first)
    assert id_of(first) != id_of(first, sender="pipeline.expel.another")


def test_an_event_that_comes_back_has_the_id_that_it_had_at_first():
    back = event([*retry_headers(("events", 2, 7), 1234, 1)], comes_back=True, offset=99)
    assert id_of(back) == id_of(event([]))


def test_elements_of_one_record_have_ids_of_their_own():
    headers: Headers = [(ORIGIN, b"raw/0/5")]
    assert id_of(event(headers, offset=7)) != id_of(event(headers, offset=8))


def test_events_of_a_topic_that_was_made_again_have_ids_of_their_own():
    old, new = event([]), event([])
    new.since_ms += 1
    assert id_of(old) != id_of(new)
