"""Which events of a partition wait in the retry topics, for a route that keeps the order of keys."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial

from confluent_kafka import Consumer, Message, TopicPartition

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
_Reached = Callable[[str, Sequence[int]], Sequence[TopicPartition]]
"""What a consumer group has committed of these partitions of a topic."""


class StoppedError(Retryable):
    """A stop was requested while what waits was read: much may wait."""


class WaitingEvents:
    """Of one route, as long as its topics are the same."""

    def __init__(
        self,
        plan: ExpelPlan,
        connection: Connection,
        topics: Topics,
        topic_id: str,
        retry_in: Sequence[str],
        stopping: Callable[[], bool],
    ) -> None:
        """`topic_id`: of the route's topic. `retry_in`: the topics of all pauses, then those of pauses that it had
        before."""
        self._plan = plan
        self._connection = connection
        self._topics = topics
        self._topic_id = topic_id
        self._retry_in = retry_in
        self._stopping = stopping

    def begin(self, order: KeyOrder, count: int, partitions: Collection[PartitionId]) -> None:
        """Tells the order what waits of partitions that were assigned, before anything of them is read. `count`:
        partitions of the route's topic for which its retry topics were made. Raises Retryable, and StoppedError if
        `stopping` says so."""
        topic = self._plan.section.topic
        numbers = [number for name, number in partitions if name == topic]
        if any(number >= count for number in numbers):
            raise Retryable("the topic has new partitions", where=f"topic {topic}", next_step=_BY_ITSELF)
        try:
            # Without a pause nothing could wait behind what waits.
            waiting = self._read(numbers) if numbers and self._plan.retry_in else {}
        except CorruptState as error:  # an offset is gone, or its topic was made again, since it was asked for
            what, again = "records of a retry topic were removed while it was read", "the route begins again by itself"
            raise Retryable(what, where=error.where, next_step=again) from error
        for number in numbers:
            order.knows(number, waiting.get(number, Waiting()))

    def _read(self, numbers: Sequence[int]) -> Mapping[int, Waiting]:
        plan = self._plan
        found: _Events = defaultdict(list)
        copies: dict[int, dict[int, int]] = defaultdict(dict)
        last = len(plan.retry_in) - 1
        # Without the transaction that the retrier may have open: its events still stand as not forwarded, and the
        # copies that it writes are those that come back.
        ends = self._topics.end_offsets(plan.retry_out)
        with closing(new_store_consumer(self._connection)) as reader:
            # In this order: an event that is forwarded meanwhile is found in both, and not in neither.
            with self._reached_by(plan.retrier_group) as reached:
                for pause, topic in enumerate(self._retry_in):
                    for event in self._events(self._uncommitted(reader, reached, topic, numbers)):
                        # Offsets of an old topic say nothing of those in the one of the last pause.
                        _note(found, event, min(pause, last), event.offset if pause <= last else NOT_KNOWN)
                        # Its copies that came back before this one was written are left over.
                        copies[event.place[1]][event.turn] = ends.get(event.place[1], 0)
            with self._reached_by(plan.group) as reached:
                for event in self._events(self._uncommitted(reader, reached, plan.retry_out, numbers)):
                    latest = copies[event.place[1]]
                    if event.offset < latest.get(event.turn, 0):
                        continue  # left over: it waits where it was found
                    latest[event.turn] = event.offset
                    pause = min(max(event.tries - 1, 0), last)  # it counts the pauses that are over
                    _note(found, event, pause, NOT_KNOWN)
        return {number: Waiting(found[number], copies[number]) for number in numbers}

    @contextmanager
    def _reached_by(self, group: str) -> Iterator[_Reached]:
        with closing(new_group_consumer(self._connection, group)) as member:
            yield partial(committed, member, group)

    def _uncommitted(
        self, reader: Consumer, reached_of: _Reached, topic: str, numbers: Sequence[int]
    ) -> Iterator[Message]:
        """The records of the partitions that the group has neither committed nor settled beyond that."""
        reached = {one.partition: one for one in reached_of(topic, numbers)}
        notes = {number: Committed.from_text(one.metadata) for number, one in reached.items()}
        settled = {number: () if note is None else note.done for number, note in notes.items()}
        lows, ends = self._topics.start_offsets(topic), self._topics.written_offsets(topic)
        # To the end of what is written, not of what can be read now: the offsets of a transaction that is just being
        # committed are seen before its records.
        ends = {number: ends[number] for number in numbers if number in ends}
        starts = {
            number: max(lows.get(number, 0), reached[number].offset if number in reached else 0) for number in ends
        }
        topic_id = self._topics.topic_id(topic)
        for number, note in notes.items():
            if note is not None and note.born not in ("", topic_id):  # what is committed is of a topic that is gone
                starts[number], settled[number] = lows[number], ()
        for messages in read_to_end(reader, topic, starts, ends, stalled_s=_OPEN_S):
            if self._stopping():
                raise StoppedError("a stop was requested while what waits was read", where=f"topic {topic}")
            for message in messages:
                offset, done = message.offset() or 0, settled.get(message.partition() or 0, ())
                if not any(first <= offset <= last for first, last in done):
                    yield message

    def _events(self, messages: Iterator[Message]) -> Iterator[Event]:
        """Without what other programs wrote there: nobody says of it that it comes back in the partition of its
        place."""
        topic = self._plan.section.topic
        for message in messages:
            lease = Lease((message.topic() or "", message.partition() or 0), topic, self._topic_id)
            event = Event(message, lease, 0.0)
            if event.place[:2] == (topic, lease.partition[1]):
                yield event


def _note(found: _Events, event: Event, pause: int, at: int) -> None:
    if event.key is not None:
        found[event.place[1]].append((event.key, event.turn, pause, at))
