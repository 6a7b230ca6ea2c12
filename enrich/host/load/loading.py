"""Loads one whole table from its topic, with a consumer of its own, while the agent does everything else."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from enrich.base.errors import Retryable
from enrich.host.claims.gaps import whole_since
from enrich.host.claims.moments import Clocks, Moment
from enrich.host.claims.notes import EPOCHS, TOPIC_ID, complete_note, epochs_of
from enrich.host.claims.watch import PATIENCE_S, Answer
from enrich.host.load.reading import Batch, Read, Reading, reading_here
from enrich.host.load.snapshots import TopicNow, joined_floors, require_fits
from enrich.host.tables import TopicTable
from enrich.kafka import Connection, Topics, TopicSettings, new_admin_client
from stores.protocol import Clock, Quarantined
from stores.rocks import BulkLoad, RocksStore
from stores.snapshots import Snapshot
from stores.table import HistoryFloor, Offsets


@dataclass(frozen=True)
class Progress:
    """How far a load is. `records` have been read, `to_come` offsets are left (compaction gaps included)."""

    records: int
    to_come: int
    per_second: float

    def as_numbers(self) -> dict[str, float]:
        seconds = {"seconds_to_come": self.to_come / self.per_second} if self.per_second else {}
        return {**vars(self), **seconds}


@dataclass(frozen=True)
class Loaded:
    """Up to where a loaded table is complete: the topic's `ends`, asked for at a moment."""

    asked: Moment
    ends: Offsets


class Loads(Protocol):
    """What a load needs of the store: the store itself, or its stand-in in another process."""

    def bulk(self, table: str) -> BulkLoad: ...


@dataclass(frozen=True)
class Order:
    """What to load, and from where."""

    table: TopicTable
    answer: Answer
    connection: Connection
    head_start: Snapshot | None = None


@dataclass(frozen=True)
class Listener:
    """The caller's side of a load: it receives the progress and the quarantined records, and may stop the load."""

    progress: Callable[[Progress], None]
    quarantined: Callable[[Sequence[Quarantined]], None]
    should_stop: Callable[[], bool]


class LoadTable(Protocol):
    """How a table is loaded: `load_table` in this process, or in another one."""

    def __call__(self, store: RocksStore, order: Order, listener: Listener, clock: Clock) -> Loaded | None: ...


class Source(Protocol):
    """A topic, as a load reads it."""

    def topic_id(self) -> str: ...

    def starts(self) -> Offsets: ...

    def ends(self) -> Offsets: ...

    def first_since(self, time_ms: int) -> Offsets:
        """For each partition the first offset whose record is not older than `time_ms`, or the partition's end."""

    def read(self, starts: Offsets, ends: Offsets, epochs: Offsets) -> Iterator[Batch]:
        """See `read_to_end`."""


def load_table(
    store: Loads, order: Order, listener: Listener, clock: Clock, reading: Reading = reading_here
) -> Loaded | None:
    """Reads the topic from its start to its current ends and makes the rows visible in one step.

    With a head start it adds the snapshot's rows and reads the topic from the snapshot's positions on. Returns None
    when the listener stops it. Raises WouldLoseData for a snapshot that does not fit, CorruptState for a damaged one,
    and what Kafka and the store raise; the table is then unchanged.
    """
    # First what reads: it may fork, and a client for admins has threads.
    with reading(order.connection, order.table.topic) as read:
        return load_from(_Topic(order, read), store, order, listener, Clocks(clock))


def load_from(source: Source, store: Loads, order: Order, listener: Listener, clocks: Clocks) -> Loaded | None:
    """What `load_table` does, with the source of the topic's records given.

    While the topic is read, its cleaner may remove a version before it is read, because of a later version that lies
    beyond the ends. Then neither is seen. So the load asks for the ends again and reads on, until it reached the ends
    so soon after it asked for them that the cleaner could not remove anything in between.
    """
    table, head_start = order.table, order.head_start
    settings = order.answer.settings or TopicSettings()
    topic_id = source.topic_id()
    began = asked = clocks.now()
    ends = source.ends()
    starts = source.starts()
    epochs: dict[int, int] = {}
    complete_ms = began.wall_ms
    if head_start is not None:
        require_fits(head_start, table, TopicNow(table.topic, topic_id, starts, ends, settings, began.wall_ms))
        starts, epochs = dict(head_start.manifest.positions), epochs_of(head_start.manifest.notes)
        complete_ms = min(complete_ms, head_start.manifest.complete_through)

    def require_in_time() -> Moment:
        now = clocks.now()
        took_ms = began.until(now) + began.wall_ms - complete_ms
        if took_ms > settings.safe_reading_ms:
            raise Retryable(
                f"deletions may have been missed: what was read first is {took_ms / 1000:,.0f} s old, and the topic "
                f"keeps tombstones for {settings.delete_retention_ms / 1000:,.0f} s",
                where=f"topic {table.topic}",
                next_step="raise its delete.retention.ms well above the time that a load takes",
            )
        return now

    with store.bulk(table.name) as load:
        started, records, newest_ms = time.monotonic(), 0, 0
        positions = dict(starts)
        for versions in () if head_start is None else head_start.versions():
            listener.quarantined(load.add(versions))
            records += len(versions)
            listener.progress(Progress(records, to_come(starts, ends), records / (time.monotonic() - started)))
            if listener.should_stop():
                load.abandon()
                return None
        while True:
            for batch in source.read(starts, ends, epochs):
                listener.quarantined(load.add(batch.versions))
                newest_ms = max(newest_ms, batch.versions.column("timestamp").to_numpy().max(initial=0))
                records += len(batch.versions)
                positions.update(batch.positions)
                epochs.update(batch.epochs)
                listener.progress(Progress(records, to_come(positions, ends), records / (time.monotonic() - started)))
                require_in_time()
                if listener.should_stop():
                    break
            # Beyond the last record, as after a transaction's marker, the epoch may be another one: with that of the
            # record the brokers would call the marker truncated, and the table would be loaded anew again and again.
            epochs = {p: epoch for p, epoch in epochs.items() if positions.get(p) == ends.get(p)}
            read = require_in_time()
            if listener.should_stop() or asked.until(read) < settings.untouched_ms:
                break
            asked, starts, ends = read, ends, source.ends()
            if any(end < starts.get(partition, 0) for partition, end in ends.items()):
                raise Retryable("the topic was cut short while it was read", where=f"topic {table.topic}")
        if listener.should_stop():
            load.abandon()
            return None
        floors = _floors(source, order, asked, read, int(newest_ms), ends)
        if head_start is not None:
            floors = joined_floors(head_start.manifest, floors)
        if source.topic_id() != topic_id:
            raise Retryable("the topic was deleted and recreated while it was read", where=f"topic {table.topic}")
        notes = {TOPIC_ID: topic_id, EPOCHS: json.dumps(epochs), **complete_note(asked)}
        # A store that the snapshot comes from may have had no history, and have forgotten deleted keys already.
        forgotten = None if head_start is None else head_start.manifest.positions
        load.finish(ends, floors, asked.wall_ms, notes, forgotten)
    return Loaded(asked, ends)


class _Topic:
    """The `Source` of a topic in a Kafka cluster."""

    def __init__(self, order: Order, read: Read) -> None:
        self._name = order.table.topic
        self._topics = Topics(new_admin_client(order.connection), deadline_s=PATIENCE_S)
        self.read = read

    def topic_id(self) -> str:
        return self._topics.topic_id(self._name)

    def starts(self) -> Offsets:
        return self._topics.start_offsets(self._name)

    def ends(self) -> Offsets:
        return self._topics.end_offsets(self._name)

    def first_since(self, time_ms: int) -> Offsets:
        return self._topics.offsets_at(self._name, time_ms)


def _floors(
    source: Source, order: Order, asked: Moment, read: Moment, newest_ms: int, ends: Offsets
) -> Mapping[int, HistoryFloor]:
    """From where on the topic still had every version when it was read. What compaction removed leaves no trace; it
    removes nothing that is younger than min.compaction.lag.ms."""
    table, settings = order.table, order.answer.settings
    lag = 0 if settings is None else settings.min_compaction_lag_ms
    all_that_was_read = whole_since(0, asked.wall_ms, newest_ms)
    if not lag or not table.spec.history_ms:
        return {partition: HistoryFloor(end, all_that_was_read) for partition, end in ends.items()}
    proven = min(whole_since(lag, read.wall_ms, newest_ms), all_that_was_read)
    firsts = source.first_since(proven + 1)
    # A partition whose very first record is that young was never compacted: its history is whole from its start.
    return {p: HistoryFloor(min(firsts[p], end), proven) for p, end in ends.items() if firsts[p] > 0}


def to_come(positions: Mapping[int, int], ends: Mapping[int, int]) -> int:
    return sum(max(0, end - positions.get(partition, 0)) for partition, end in ends.items())
