"""The topic of verdicts: what an observer has written, and where another one goes on."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import count
from typing import NamedTuple, TypeVar

import msgspec
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from enrich.base.errors import BadRecord, EnrichError
from enrich.kafka import Connection, Topics, new_producer, read_topic
from enrich.kafka.clients.ending import discard, is_over, serve
from enrich.kafka.clients.errors import mapped
from enrich.verdict import MinuteVerdict, decoded, encoded, key_of
from enrich.verdict.minute import with_fewer_names
from enrich.verdict.summary import Summary, read_summary
from enrich.verdict.topic import ACTION, ALARM, CHECKPOINT, CLOCK, is_verdict, settings_of
from observe_service.alarms.board import Action, Alarm
from observe_service.clock import Clock
from observe_service.verdicts.observation import Checkpoint
from observe_service.watching import checkpoints

_log = logging.getLogger("enrich.observe")

_TURN_S = 0.1
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)


@dataclass(frozen=True)
class Written:
    records: Sequence[tuple[int, bytes]]
    """Verdicts that were asked for, each with its minute, in order of these."""
    checkpoint: Checkpoint | None
    alarms: Sequence[Alarm]
    actions: Sequence[Action]

    def verdicts(self, since_minute: int = 0) -> Iterator[MinuteVerdict]:
        """One after the other: two days of them with their names may take gigabytes at once."""
        return _decoded(value for minute, value in self.records if minute >= since_minute)


class _Record(NamedTuple):
    number: int
    """In the order of writing; of those that it replaced, the first one's."""
    value: bytes


class VerdictLog:
    """What could not be written is kept, the newest of each key, until it can be."""

    def __init__(
        self, reading: Connection, writing: Connection, topics: Topics, topic: str, keep: timedelta, clock: Clock
    ) -> None:
        """`clock`: is told with each record what time the brokers have."""
        self._reading = reading
        self._next: Mapping[int, int] = {}
        self._topics = topics
        self._topic = topic
        self._keep = keep
        self._clock = clock
        self._writing = writing
        self._producer = self._new_producer()
        self._is_broken = False
        """Whether the producer can do nothing any more."""
        self._left: dict[bytes, _Record] = {}
        """To be written, or once more."""
        self._under_way: dict[bytes, _Record] = {}
        """Not acknowledged yet by this producer."""
        self._too_large: set[bytes] = set()
        """Keys of what cannot be written as it is, and cannot be made smaller."""
        self._numbers = count()
        self._due: tuple[int, bytes] | None = None
        """A checkpoint, and the number of the first record that need not be there before it."""
        self._lock = threading.RLock()
        self.trouble: str | None = None
        """Why something cannot be written now."""

    def begin(self) -> None:
        """Makes the topic, and asks for the brokers' time."""
        self._topics.ensure(self._topic, partitions=1, config=settings_of(self._keep))
        self._put(CLOCK, b"{}")
        self._wait(10)

    def read(self, since_minute: int, tell: Callable[[Sequence[Summary]], None] = lambda _: None) -> "Written":
        """All of it, with the verdicts from that minute on. `tell`: is told of all verdicts as they are read; of each
        minute the newest comes last. Thirty days of whole ones would not fit."""
        kept: dict[bytes, tuple[int, bytes]] = {}

        def take(verdicts: Sequence[tuple[bytes, bytes]]) -> None:
            told = []
            for key, value in verdicts:
                try:
                    told.append(read_summary(value))
                except BadRecord as error:
                    _log.warning("%s", error)
                    continue
                if told[-1].minute >= since_minute:
                    kept[key] = told[-1].minute, value
            tell(told)

        self._next = self._topics.start_offsets(self._topic)
        written = self.read_on(take)
        return replace(written, records=sorted(kept.values(), key=lambda record: record[0]))

    def read_on(self, take: Callable[[Sequence[tuple[bytes, bytes]]], None] = lambda _: None) -> "Written":
        """What was written since, by this observer or another, or by a person. `take`: takes keys and values of
        verdicts."""
        newest: dict[bytes, bytes | None] = {}
        ends = self._topics.end_offsets(self._topic)
        for batch in read_topic(self._reading, self._topic, self._next, ends):
            verdicts = []
            for message in batch:
                key, value = message.key() or b"", message.value()
                if not is_verdict(key):
                    newest[key] = value
                elif value is not None:
                    verdicts.append((key, value))
            take(verdicts)
        self._next = ends
        alarms, actions = _parsed(newest, ALARM, Alarm), _parsed(newest, ACTION, Action)
        return Written([], checkpoints.from_record(newest.get(CHECKPOINT)), [*alarms], [*actions])

    def write_alarm(self, alarm: Alarm) -> None:
        self._put(ALARM + alarm.key.encode(), json.dumps(asdict(alarm)).encode())
        self.push()

    def write(self, verdicts: Sequence[MinuteVerdict], checkpoint: Checkpoint | None = None) -> None:
        """Returns at once. The checkpoint is written when all before it are acknowledged: who goes on there does not
        judge them again."""
        for verdict in verdicts:
            self._put(key_of(verdict.route, verdict.minute), encoded(verdict))
        if checkpoint is not None:
            self._due = next(self._numbers), checkpoints.to_record(checkpoint)
        self.push()

    def push(self) -> None:
        """For any thread. Raises nothing: what goes wrong is in `trouble`."""
        self._serve(0)
        with self._lock:
            if self._due is not None and not self._is_any_before(self._due[0]):
                self._left[CHECKPOINT] = _Record(*self._due)
                self._due = None
            due = {key: record for key, record in self._left.items() if key not in self._under_way}
            self._under_way |= due
            for key in due:
                del self._left[key]
            producer = self._producer
        is_smaller = False
        for key, record in due.items():
            try:
                producer.produce(self._topic, record.value, key, on_delivery=partial(self._reported, producer))
            except BufferError:
                self._refused(producer, KafkaError(KafkaError._QUEUE_FULL), key)
            except KafkaException as exception:
                is_smaller |= self._refused(producer, exception.args[0], key)
        if is_smaller:  # now: in a second there may be a newer one, as large as this was
            self.push()

    def close(self) -> None:
        """Waits a moment for what is not acknowledged."""
        self._wait(5)

    def _wait(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        self.push()
        while (self._left or self._under_way) and time.monotonic() < end_s:
            self._serve(_TURN_S)
            self.push()

    def _new_producer(self) -> Producer:
        return new_producer(self._writing, **{"linger.ms": 20, "message.timeout.ms": 10_000})

    def _serve(self, seconds: float) -> None:
        producer = self._producer
        if (error := serve(producer, seconds)) is not None:
            self._refused(producer, error)
        if self._is_broken:
            self._replace()

    def _replace(self) -> None:
        """What the producer has not written the next one writes."""
        with self._lock:
            if not self._is_broken:  # another thread was quicker
                return
            producer = self._producer
            try:
                self._producer = self._new_producer()
            except EnrichError as error:
                self._note(str(error))
                return
            self._is_broken = False
            for key in [*self._under_way]:
                self._back(key)
        discard(producer)

    def _reported(self, producer: Producer, error: KafkaError | None, message: Message) -> None:
        key = message.key() or b""
        if error is not None:
            self._refused(producer, error, key)
            return
        kind, broker_ms = message.timestamp()
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            self._clock.stamped(broker_ms)
        with self._lock:
            if producer is self._producer:
                self._under_way.pop(key, None)
            self._too_large.discard(key)
            if not self._too_large:
                self.trouble = None

    def _refused(self, producer: Producer, error: KafkaError, key: bytes | None = None) -> bool:
        """The record is written once more. Returns whether it is smaller now, since it was too large."""
        with self._lock:
            if producer is not self._producer:  # all that it had is written by another one
                return False
            # It is replaced by who calls the reports, and not within one.
            self._is_broken = self._is_broken or is_over(error)
            is_smaller = False
            if key is not None:
                if error.code() in _TOO_LARGE and not (is_smaller := self._shorten(key)):
                    self._too_large.add(key)
                self._back(key)
            if not is_smaller:
                self._note(str(mapped(error, f"topic {self._topic}")))
            return is_smaller

    def _note(self, trouble: str) -> None:
        if self.trouble is None:
            _log.warning("verdicts are not written: %s", trouble)
        self.trouble = trouble

    def _put(self, key: bytes, value: bytes) -> None:
        with self._lock:
            before = self._left.get(key)
            number = next(self._numbers)
            self._left[key] = _Record(number if before is None else before.number, value)

    def _is_any_before(self, number: int) -> bool:
        return any(record.number < number for some in (self._left, self._under_way) for record in some.values())

    def _back(self, key: bytes) -> None:
        with self._lock:
            record = self._under_way.pop(key, None)
            if record is not None:  # a newer one stays, in its place
                newest = self._left.get(key, record)
                self._left[key] = _Record(record.number, newest.value)

    def _shorten(self, key: bytes) -> bool:
        """What is under way and was too large. False: it has no names that could be left out."""
        record = self._under_way.get(key)
        smaller = None if record is None else _smaller(key, record.value)
        if record is None or smaller is None:
            return False
        self._under_way[key] = _Record(record.number, smaller)
        return True


def _smaller(key: bytes, value: bytes) -> bytes | None:
    """With half of its names. None: it has none."""
    if is_verdict(key):
        fewer = with_fewer_names(decoded(value))
        return None if fewer is None else encoded(fewer)
    return checkpoints.halved(value) if key == CHECKPOINT else None


def _decoded(records: Iterable[bytes]) -> Iterator[MinuteVerdict]:
    for value in records:
        try:
            yield decoded(value)
        except BadRecord as error:
            _log.warning("%s", error)


_Kind = TypeVar("_Kind", Alarm, Action)


def _parsed(newest: Mapping[bytes, bytes | None], start: bytes, kind: type[_Kind]) -> Iterator[_Kind]:
    for key, value in newest.items():
        if key.startswith(start) and value is not None:
            try:
                yield msgspec.json.decode(value, type=kind)
            except msgspec.MsgspecError as error:
                _log.warning(
                    "a record of the topic cannot be read: %s", error, extra={"key": key.decode(errors="replace")}
                )
