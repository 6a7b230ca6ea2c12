"""Between a route's thread and its lane: how much may be settled that is not committed."""

from typing import Any, cast

from confluent_kafka import Message

from edge_service.expel.lane.events import Event, Lease
from edge_service.expel.streaming import LaneSink

LEASE = Lease(("events", 0))


def event(offset: int) -> Event:
    return Event(Message(topic="events", partition=0, offset=offset, value=b"1", timestamp=(1, 1)), LEASE, 0.0)


def test_nothing_more_is_sent_while_as_much_is_settled_and_not_committed_as_a_kill_may_repeat() -> None:
    sink = LaneSink(cast(Any, None), "events", "id", 4, lambda _: None, None)
    for offset in range(4):
        assert sink.may_send()
        sink.note_settled([event(offset)])
    assert not sink.may_send()
    assert list(sink.settled()) == [(("events", 0), [0, 1, 2, 3])]
    assert not sink.may_send(), "it is known, and not committed"
    assert sink.is_commit_due
    sink.committed()
    assert sink.may_send()
    assert not sink.is_commit_due
