"""Which events of a partition wait in the retry topics, for a route that keeps the order of keys."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, Message

from edge_service.expel.lane.events import Event, Lease
from edge_service.expel.lane.order import NOT_KNOWN, KeyOrder, Waiting
from edge_service.expel.plan import ExpelPlan
from enrich.base.errors import CorruptState, Retryable
from enrich.delivery.partitions.positions import Committed
from enrich.delivery.plan import PartitionId
from enrich.kafka import Topics, new_group_consumer, new_store_consumer, read_to_end
from enrich.kafka.clients.making import Connection
from enrich.kafka.groups import committed

_OPEN_S = 90.0
"""A transaction of a retrier that was killed stays open for up to 20 s, and nothing behind it can be read so long."""
_BY_ITSELF = "the route begins again by itself, with retry topics that have as many"
_Events = Mapping[int, list[tuple[bytes, int, int, int]]]


class StoppedError(Retryable):
    """A stop was requested while what waits was read: much may wait."""


def known_in(
    plan: ExpelPlan,
    connection: Connection,
    topics: Topics,
    order: KeyOrder,
    count: int,
    topic_id: str,
    retry_in: Sequence[str],
    stopping: Callable[[], bool],
) -> Callable[[Collection[PartitionId]], None]:
    """To be called with the partitions that were assigned, before anything of them is read. `count`: partitions of the
    route's topic for which its retry topics were made. `topic_id`: of the route's topic. `retry_in`: the topics of all
    pauses, then those of pauses that it had before. Raises Retryable, and StoppedError if `stopping` says so."""

    def begin(partitions: Collection[PartitionId]) -> None:
        numbers = [number for topic, number in partitions if topic == plan.section.topic]
        if any(number >= count for number in numbers):
            raise Retryable("the topic has new partitions", where=f"topic {plan.section.topic}", next_step=_BY_ITSELF)
        try:
            # Without a pause nothing could wait behind what waits.
            reads = numbers and plan.retry_in
            waiting = _waiting(plan, connection, topics, numbers, topic_id, retry_in, stopping) if reads else {}
        except CorruptState as error:  # an offset is gone, or its topic was made again, since it was asked for
            what, again = "records of a retry topic were removed while it was read", "the route begins again by itself"
            raise Retryable(what, where=error.where, next_step=again) from error
        for number in numbers:
            order.knows(number, waiting.get(number, Waiting()))

    return begin


def _waiting(
    plan: ExpelPlan,
    connection: Connection,
    topics: Topics,
    numbers: Sequence[int],
    topic_id: str,
    retry_in: Sequence[str],
    stopping: Callable[[], bool],
) -> Mapping[int, Waiting]:
    found: _Events = defaultdict(list)
    copies: dict[int, dict[int, int]] = defaultdict(dict)
    last = len(plan.retry_in) - 1
    # Without the transaction that the retrier may have open: its events still stand as not forwarded, and the copies
    # that it writes are those that come back.
    reached = topics.end_offsets(plan.retry_out)
    with closing(new_store_consumer(connection)) as reader:
        # In this order: an event that is forwarded meanwhile is found in both, and not in neither.
        with closing(new_group_consumer(connection, plan.retrier_group)) as member:
            for pause, topic in enumerate(retry_in):
                uncommitted = _uncommitted(reader, member, plan.retrier_group, topics, topic, numbers, stopping)
                for event in _events(plan, topic_id, uncommitted):
                    # Offsets of an old topic say nothing of those in the one of the last pause.
                    _note(found, event, min(pause, last), event.offset if pause <= last else NOT_KNOWN)
                    # Its copies that came back before this one was written are left over.
                    copies[event.place[1]][event.turn] = reached.get(event.place[1], 0)
        with closing(new_group_consumer(connection, plan.group)) as member:
            uncommitted = _uncommitted(reader, member, plan.group, topics, plan.retry_out, numbers, stopping)
            for event in _events(plan, topic_id, uncommitted):
                latest = copies[event.place[1]]
                if event.offset < latest.get(event.turn, 0):
                    continue  # left over: it waits where it was found
                latest[event.turn] = event.offset
                pause = min(max(event.tries - 1, 0), last)  # it counts the pauses that are over
                _note(found, event, pause, NOT_KNOWN)
    return {number: Waiting(found[number], copies[number]) for number in numbers}


def _note(found: _Events, event: Event, pause: int, at: int) -> None:
    if event.key is not None:
        found[event.place[1]].append((event.key, event.turn, pause, at))


def _events(plan: ExpelPlan, topic_id: str, messages: Iterator[Message]) -> Iterator[Event]:
    """Without what other programs wrote there: nobody says of it that it comes back in the partition of its place."""
    for message in messages:
        lease = Lease((message.topic() or "", message.partition() or 0), plan.section.topic, topic_id)
        event = Event(message, lease, 0.0)
        if event.place[:2] == (plan.section.topic, lease.partition[1]):
            yield event


def _uncommitted(
    reader: Consumer,
    member: Consumer,
    group: str,
    topics: Topics,
    topic: str,
    numbers: Sequence[int],
    stopping: Callable[[], bool],
) -> Iterator[Message]:
    """The records of the partitions that this group has neither committed nor settled beyond that."""
    reached = {one.partition: one for one in committed(member, group, topic, numbers)}
    notes = {number: Committed.from_text(one.metadata) for number, one in reached.items()}
    settled = {number: () if note is None else note.done for number, note in notes.items()}
    lows, ends = topics.start_offsets(topic), topics.written_offsets(topic)
    # To the end of what is written, not of what can be read now: the offsets of a transaction that is just being
    # committed are seen before its records.
    ends = {number: ends[number] for number in numbers if number in ends}
    starts = {number: max(lows.get(number, 0), reached[number].offset if number in reached else 0) for number in ends}
    topic_id = topics.topic_id(topic)
    for number, note in notes.items():
        if note is not None and note.born not in ("", topic_id):  # what is committed is of a topic that is gone
            starts[number], settled[number] = lows[number], ()
    for messages in read_to_end(reader, topic, starts, ends, stalled_s=_OPEN_S):
        if stopping():
            raise StoppedError("a stop was requested while what waits was read", where=f"topic {topic}")
        for message in messages:
            offset, done = message.offset() or 0, settled.get(message.partition() or 0, ())
            if not any(first <= offset <= last for first, last in done):
                yield message
