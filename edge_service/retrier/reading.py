"""Reads the retry topics of a route a little ahead, and knows when the next record is due."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from edge_service.retrier.plan import RetryPlan
from edge_service.retrier.waiting import Limits, Line, Moment
from enrich.base.errors import Retryable
from enrich.delivery.partitions.gaps import Bounds, Gap, gap_of
from enrich.kafka import Connection, kafka_errors, new_group_consumer
from enrich.kafka.clients.errors import LOST_OFFSET, MISSING_TOPIC, errors_of_known_topic, mapped

_SETTINGS = {
    # A backlog is fetched while what was read of it is forwarded.
    "queued.min.messages": 5_000,
    "queued.max.messages.kbytes": 4_096,
    "enable.partition.eof": True,
    # If an offset does not exist any more, the client must report it, not silently start at another one.
    "auto.offset.reset": "error",
    # How soon a topic that was made later is found.
    "topic.metadata.refresh.interval.ms": 5_000,
}
_AT_ONCE = 2_000
_AHEAD = Limits(200, 2**17)
"""Of a partition whose records are not due: enough to forward them in time while more are fetched. It is then paused,
and is fetched again only after the request in flight for the other partitions, which may take 0.5 s."""
_BACKLOG = Limits(10_000, 4 * 2**20)
"""Of a partition whose records are due. It is reached if they cannot be forwarded."""
_MOST_BYTES = 16 * 2**20
"""Of all partitions with a backlog: each has its share, and at least one record."""
_SILENT_S = 30.0
"""How long an assigned partition may return nothing. Until a transaction of a killed instance is ended, its group has
no offsets: 10 s, and up to 10 s more until the brokers look for such transactions."""
_ASK_S = 10.0
"""How long brokers may take to say where a partition begins, and what of it is done."""


def moment() -> Moment:
    return Moment(time.time_ns() // 1_000_000, time.monotonic())


class Reading:
    """Must be used by one thread; only `lines` may be called by others."""

    def __init__(
        self,
        connection: Connection,
        plan: RetryPlan,
        clock: Callable[[], Moment] = moment,
        remark: Callable[[Gap], None] = lambda _: None,
    ) -> None:
        """`remark` is called with what was removed unread."""
        self._plan = plan
        self._remark = remark
        self._clock = clock
        self._lines: dict[tuple[str, int], Line] = {}
        self.group: Any = None
        """The membership by which the partitions were assigned: it commits their offsets. Not the client's current one:
        that of a member that was dropped may be empty before it knows, and brokers accept that for any partition."""
        self.is_away = False
        """No broker answers."""
        self.consumer: Consumer = new_group_consumer(connection, plan.group, **_SETTINGS, error_cb=self._client_error)
        with kafka_errors(f"consumer group {plan.group}"):
            self.consumer.subscribe(
                list(plan.pauses), on_assign=self._assign, on_revoke=self._give_up, on_lost=self._give_up
            )

    def close(self) -> None:
        self.consumer.close()

    def lines(self) -> list[Line]:
        return list(self._lines.values())

    def read(self, wait_s: float) -> None:
        """Adds what there is to the lines, and waits for so long if there is nothing."""
        with kafka_errors(f"consumer group {self._plan.group}"):
            first = self.consumer.poll(wait_s)
            more = self.consumer.consume(_AT_ONCE, 0) if first is not None else []
        now = self._clock()
        for message in [first, *more] if first is not None else []:
            self._take(message, now)
        self._require_answers(now.elapsed_s)

    def adjust(self) -> None:
        """Reads nothing more of lines that are long enough, and more of those that are short."""
        now_s = self._clock().elapsed_s
        late = [line for line in self.lines() if line.is_all_due(now_s)]
        backlog = Limits(_BACKLOG.records, min(_BACKLOG.bytes, _MOST_BYTES // max(1, len(late))))
        for line in self.lines():
            most = backlog if line in late else _AHEAD
            if not line.is_paused and line.is_over(most):
                self._pause(line)
            elif line.is_paused and not line.is_over(most.half()):
                self._resume(line)

    def backlog(self) -> int:
        """How many records are due of those lines that probably have more of them."""
        now_s = self._clock().elapsed_s
        return sum(len(line) for line in self.lines() if line.is_all_due(now_s))

    def next_due_s(self) -> float | None:
        """When the next record is due, by the clock that is never set."""
        return min((line.due_s for line in self._lines.values() if line.due_s is not None), default=None)

    def _take(self, message: Message, now: Moment) -> None:
        line = self._lines.get((message.topic() or "", message.partition() or 0))
        error = message.error()
        if error is None:
            self.is_away = False
            if line is not None:  # else the poll itself has given it up
                line.silent_since = None
                line.add(message, now)
        elif error.code() == KafkaError._PARTITION_EOF:
            self.is_away = False
            if line is not None:
                line.silent_since = None
                line.ended(message.offset() or 0)
        elif error.code() in LOST_OFFSET:
            if line is not None:
                self._begin(line)
        elif error.code() not in MISSING_TOPIC and not error.retriable():
            raise mapped(error, f"topic {message.topic()}, partition {message.partition()}")

    def _begin(self, line: Line) -> None:
        """The client does not know where: nothing is committed of the partition, or what should come next is gone."""
        place, where = TopicPartition(line.topic, line.partition), f"topic {line.topic}"
        with errors_of_known_topic(where):
            reached = line.read_to
            if reached is None:
                reached = self.consumer.committed([place], timeout=_ASK_S)[0].offset
            found = self.consumer.get_watermark_offsets(place, timeout=_ASK_S, cached=False)
        if found is None:
            raise Retryable(f"partition {line.partition} cannot be read on", where=where)
        bounds = Bounds(*found)
        gap = _since(line, reached, bounds)
        if gap.doubt or gap.cut:
            self._remark(gap)
        start = reached if bounds.low <= reached <= bounds.high else bounds.low
        place.offset = start
        # A seek is refused: the client has given up on fetching it.
        self._tell(self.consumer.incremental_unassign, place)
        self._tell(self.consumer.incremental_assign, place)
        line.is_paused = False
        line.go_to(start)
        if gap.doubt and not len(line):
            # Otherwise it is named again at each start, until the next event is forwarded. Not while some wait: they
            # stand before it.
            self._tell(lambda places: self.consumer.commit(offsets=places, asynchronous=False), place)

    def _require_answers(self, now_s: float) -> None:
        """A client that lost its session, as in a process that was frozen, may come back and never fetch."""
        for line in self._lines.values():
            if line.silent_since is None:
                continue
            if self.is_away:
                line.silent_since = now_s
            elif now_s - line.silent_since > _SILENT_S:
                raise Retryable(
                    f"partition {line.partition} was assigned and returns nothing", where=f"topic {line.topic}"
                )

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Called for each generation of the group, also without new partitions.
        self.group = consumer.consumer_group_metadata()
        for one in partitions:
            line = Line(one.topic, one.partition, self._plan.pauses[one.topic].seconds)
            line.silent_since = self._clock().elapsed_s
            self._lines[one.topic, one.partition] = line

    def _give_up(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:  # noqa: ARG002 - a callback's signature
        for one in partitions:
            line = self._lines.pop((one.topic, one.partition), None)
            if line is not None and line.is_paused:
                # The client keeps it paused: if it comes back, nothing would be read of it.
                with suppress(Retryable):
                    self._resume(line)

    def _pause(self, line: Line) -> None:
        # The client refuses it for a partition that is just being given up.
        self._tell(self.consumer.pause, TopicPartition(line.topic, line.partition))
        line.is_paused = True

    def _resume(self, line: Line) -> None:
        self._tell(self.consumer.resume, TopicPartition(line.topic, line.partition))
        line.is_paused = False

    def _tell(self, call: Callable[[list[TopicPartition]], object], place: TopicPartition) -> None:
        try:
            call([place])
        except KafkaException as error:
            raise Retryable(f"Kafka: {error.args[0]}", where=f"topic {place.topic}") from error

    def _client_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.is_away = True


def positions(batch: Iterable[tuple[Line, list[Message]]]) -> list[TopicPartition]:
    """What the group has done when the batch is forwarded."""
    return [
        TopicPartition(line.topic, line.partition, (messages[-1].offset() or 0) + 1)
        for line, messages in batch
        if messages
    ]


def _since(line: Line, reached: int, bounds: Bounds) -> Gap:
    """What happened to the partition since it was read to there; below 0: nothing is committed."""
    if reached >= 0:
        gap = gap_of(line.partition, reached, bounds, None, 0, None)
    elif bounds.low > 0:
        what = f"records 0 to {bounds.low} of partition {line.partition} were removed"
        gap = Gap(doubt=f"{what}, and no commit says that they were read")
    else:
        gap = Gap()
    return Gap(*(what and f"topic {line.topic}: {what}" for what in (gap.doubt, gap.cut)))
