"""An event on its way to an endpoint, and the batch in which it goes."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from confluent_kafka import Message

from edge_service.expel.lane.outcomes import Outcome
from enrich.config.sections.edges.expel import HttpFormat
from enrich.delivery.plan import PartitionId
from enrich.kafka.identity import EVENT_TIME, ORIGIN, event_time_of, origin_of
from enrich.kafka.records import Place, headers_of, key_of, value_of
from enrich.kafka.retries import TIMESTAMP, TRIES, place_of, topic_id_in

_NUMBER = re.compile(rb"[0-9]{1,18}")
_LONGEST_ORIGINS = 4096
"""Bytes of the header `enrich-origins`."""
_TWO_OFFSETS = 42
"""Bytes that the offsets of a range take at most, with what stands between them."""


class Lease:
    """A partition, for as long as it is assigned to us."""

    __slots__ = ("is_over", "partition", "route_topic", "topic_id", "under_way")

    def __init__(self, partition: PartitionId, route_topic: str | None = None, topic_id: str = "") -> None:
        """`route_topic`: the route's topic, if the partition is of the topic of its retries. `topic_id`: the id of the
        route's topic."""
        self.partition = partition
        self.route_topic = route_topic
        self.topic_id = topic_id
        self.is_over = False
        """Nothing of it may be begun any more."""
        self.under_way = 0
        """Events that are being sent, or written to another topic."""


class Became(IntEnum):
    went, waits, dead = range(3)


NO_TIME = -(2**62)
"""In place of an event time that is not known: whole columns of them are looked at."""


class Event:
    __slots__ = (
        "became",
        "came_s",
        "event_time_ms",
        "key",
        "lease",
        "message",
        "offset",
        "ordered_by",
        "origin",
        "origin_of",
        "place",
        "since_ms",
        "tries",
        "turn",
        "value",
    )

    def __init__(self, message: Message, lease: Lease, came_s: float) -> None:
        self.message = message
        self.lease = lease
        self.came_s = came_s
        """On the loop's clock."""
        self.offset: int = message.offset() or 0
        """In the topic that it was read from."""
        self.place: Place = (*lease.partition, self.offset)
        """In the route's topic."""
        self.turn: int = self.offset
        """Orders the events of a partition of the route's topic. Those of a topic of its name that is gone come first:
        others have their offsets now."""
        self.key = key_of(message)
        self.ordered_by = self.key
        """The key, unless its place is not in the route's topic, as if that was another one: there is no order between
        two topics, and each time that such an event comes back it would have another turn."""
        self.value = value_of(message)
        self.since_ms: int = message.timestamp()[1]
        """When it came into the route's topic."""
        self.tries = 0
        """Pauses that it has used up."""
        self.origin_of: bytes | None = None
        """Topic and partition of its origin; with `origin` the place by which it came into the pipeline."""
        self.origin = self.offset
        self.event_time_ms = NO_TIME
        self.became = Became.went
        """What was done with it, once it is settled."""
        headers = headers_of(message)
        if headers:
            self._take(headers)

    def _take(self, headers: Sequence[tuple[str, bytes | None]]) -> None:
        """Anybody may write into a topic: what is not as it should be is taken for missing."""
        if self.lease.route_topic is not None:
            self._take_place({name: content for name, content in headers if content is not None}, topic_id_in(headers))
        for name, content in headers:
            # What is not an origin must not become a part of a request's head.
            if name == ORIGIN:
                if self.origin_of is None and (found := origin_of(content)) is not None:
                    self.origin_of, self.origin = found
            elif name == EVENT_TIME:
                time_ms = event_time_of(content)
                self.event_time_ms = NO_TIME if time_ms is None else time_ms

    def _take_place(self, headers: Mapping[str, bytes], topic_id: str) -> None:
        place = place_of(headers)
        if place is not None and place[0] == self.lease.route_topic and 0 <= place[1] < 2**31 and 0 <= place[2] < 2**63:
            self.place, self.origin, self.turn = place, place[2], place[2]
            if topic_id and topic_id != (self.lease.topic_id or topic_id):
                self.turn -= int.from_bytes(topic_id.encode()) << 63
        else:
            self.ordered_by = None
        tries, since = headers.get(TRIES, b""), headers.get(TIMESTAMP, b"")
        if _NUMBER.fullmatch(tries):
            self.tries = int(tries)
        if _NUMBER.fullmatch(since):
            self.since_ms = int(since)

    @property
    def origin_place(self) -> bytes:
        """Topic/partition of the origin."""
        if self.origin_of is None:
            self.origin_of = b"%b/%d" % (self.place[0].encode(), self.place[1])
        return self.origin_of

    @property
    def size(self) -> int:
        return 0 if self.value is None else len(self.value)

    @property
    def is_first_read(self) -> bool:
        """Whether it comes from the route's topic, and not from that of its retries."""
        return self.lease.route_topic is None

    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        return headers_of(self.message)


@dataclass(slots=True, eq=False)
class Batch:
    """The events of one request."""

    events: Sequence[Event]
    tries: int = 0
    """How often it was sent."""
    began_s: float | None = None
    """When it was first sent, on the loop's clock."""
    failed: Outcome | None = None
    """What became of it when it was sent last."""
    before: Sequence[Event] = ()
    """Events of the same batch that are concluded: it was halved, or they became too old."""
    then: "list[Batch]" = field(default_factory=list)
    """What goes after it: the other parts of a batch that was halved."""

    def message_id(self, sender: str) -> str:
        """The same when these events are sent again together, also by another instance. With others, or without some of
        them, they have another one: a receiver drops what it knows by its id, with all that came new in it."""
        # By places in the route's topic: elements of a record that was exploded have one origin. By times too: in a
        # topic that was made again other events have the same places.
        names = (b"%b/%d/%d/%d" % (e.place[0].encode(), *e.place[1:], e.since_ms) for e in self.events)
        return "msg_" + hashlib.blake2b(b"\n".join([sender.encode(), *names]), digest_size=16).hexdigest()

    def halved(self) -> "Batch":
        """The first half, and after it the second, and what was to go after the whole."""
        middle = len(self.events) // 2
        return Batch(self.events[:middle], before=self.before, then=[Batch(self.events[middle:]), *self.then])

    def following(self) -> "Batch | None":
        """What goes after it."""
        if not self.then:
            return None
        second, *rest = self.then
        second.before, second.then = [*self.before, *self.events], rest
        return second


class Origins:
    """The header `enrich-origins`, as it grows event by event."""

    def __init__(self) -> None:
        self._ranges: list[bytes] = []
        self._length = 0
        self._place = b""
        self._first = self._last = 0

    def has_room(self, event: Event) -> bool:
        """If not, the event goes into another batch."""
        return self._length + len(self._place) + len(event.origin_place) + 2 * _TWO_OFFSETS <= _LONGEST_ORIGINS

    def add(self, event: Event) -> None:
        if event.origin == self._last + 1 and event.origin_place == self._place:
            self._last = event.origin
            return
        if self._place:
            self._ranges.append(self._range())
            self._length += len(self._ranges[-1]) + 1
        self._place, self._first, self._last = event.origin_place, event.origin, event.origin

    def text(self) -> str:
        return b",".join([*self._ranges, self._range()]).decode("ascii")

    def _range(self) -> bytes:
        if self._first == self._last:
            return b"%b/%d" % (self._place, self._first)
        return b"%b/%d-%d" % (self._place, self._first, self._last)


def origins_of(events: Sequence[Event]) -> str:
    origins = Origins()
    for event in events:
        origins.add(event)
    return origins.text()


def has_body(event: Event) -> bool:
    """A value of nothing, or of white space alone, is no line, no element and no body: it would vanish unseen."""
    return event.value is not None and not event.value.isspace() and event.value != b""


def _ndjson(events: Sequence[Event]) -> bytes:
    lines = [event.value or b"" for event in events]
    body = b"\n".join(lines) + b"\n"
    if body.count(b"\n") > len(lines):  # within a JSON value it can only be white space
        body = b"\n".join(line.replace(b"\n", b" ") for line in lines) + b"\n"
    return body


def _array(events: Sequence[Event]) -> bytes:
    return b"[" + b",".join([event.value or b"" for event in events]) + b"]"


def _single(events: Sequence[Event]) -> bytes:
    return events[0].value or b""


BODIES: dict[HttpFormat, tuple[Callable[[Sequence[Event]], bytes], str]] = {
    HttpFormat.ndjson: (_ndjson, "application/x-ndjson"),
    HttpFormat.json: (_array, "application/json"),
    HttpFormat.single: (_single, "application/json"),
}
"""How a body is made, and its media type."""
