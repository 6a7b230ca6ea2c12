"""Loads one table whole from its topic, with a consumer of its own, beside everything else that the agent does."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from enrich.agent.notes import EPOCHS, TOPIC_ID, epochs_of
from enrich.agent.one_behind import OneBehind
from enrich.agent.snapshots import TopicNow, joined_floors, require_fits
from enrich.agent.tables import TopicTable
from enrich.agent.watch import PATIENCE_S, Answer
from enrich.errors import Retryable
from enrich.kafka import Connection, Topics, TopicSettings, new_admin_client, new_store_consumer, read_to_end
from enrich.kafka.records import row_versions_of
from stores.protocol import Clock, Quarantined
from stores.rocks import BulkLoad, RocksStore
from stores.snapshots import Snapshot
from stores.table import HistoryFloor, Offsets

_CLOCKS_DIFFER_MS = 60_000
"""How much later it may be for the broker that compacts than for this host."""


@dataclass(frozen=True)
class Progress:
    """How far a load is. `records` counts what was read, `to_come` what the offsets say is left (gaps counted in)."""

    records: int
    to_come: int
    per_second: float

    def as_numbers(self) -> dict[str, float]:
        seconds = {"seconds_to_come": self.to_come / self.per_second} if self.per_second else {}
        return {**vars(self), **seconds}


@dataclass(frozen=True)
class Loaded:
    """What a table is complete to once it is loaded."""

    asked_at_ms: int
    ends: Offsets


class Loads(Protocol):
    """What a load needs of the store: the store itself, or its stand-in in another process."""

    def bulk(self, table: str) -> BulkLoad: ...


@dataclass(frozen=True)
class Order:
    """What is to be loaded, and from where."""

    table: TopicTable
    answer: Answer
    connection: Connection
    head_start: Snapshot | None = None


@dataclass(frozen=True)
class Listener:
    """Whoever wants the table: hears how far the load is, and says when it is to stop."""

    progress: Callable[[Progress], None]
    quarantined: Callable[[Sequence[Quarantined]], None]
    should_stop: Callable[[], bool]


class LoadTable(Protocol):
    """How a table is loaded: `load_table` in this process, or by another one that calls it there."""

    def __call__(self, store: RocksStore, order: Order, listener: Listener, clock: Clock) -> Loaded | None: ...


def load_table(store: Loads, order: Order, listener: Listener, clock: Clock) -> Loaded | None:
    """Reads the topic from its start to the ends that it has now and shows the rows in one step.

    With a head start it takes in the snapshot and reads the topic from there. Returns None when told to stop. Raises
    WouldLoseData for a snapshot that does not fit, CorruptState for a damaged one, and what Kafka and the store raise;
    the table then stays as it was.
    """
    table, head_start = order.table, order.head_start
    topics = Topics(new_admin_client(order.connection), deadline_s=PATIENCE_S)
    topic_id = topics.topic_id(table.topic)
    asked_at = clock.now_ms()
    ends = topics.end_offsets(table.topic)
    starts = topics.start_offsets(table.topic)
    floors = _floors(topics, order, asked_at, ends)
    epochs: dict[int, int] = {}
    if head_start is not None:
        settings = order.answer.settings or TopicSettings()
        require_fits(head_start, table, TopicNow(table.topic, topic_id, starts, ends, settings, asked_at))
        starts, epochs = dict(head_start.manifest.positions), epochs_of(head_start.manifest.notes)
        floors = joined_floors(head_start.manifest, floors)
    load = store.bulk(table.name)
    consumer = new_store_consumer(order.connection)
    try:
        started, records = time.monotonic(), 0
        positions = dict(starts)
        for versions in () if head_start is None else head_start.versions():
            listener.quarantined(load.add(versions))
            records += len(versions)
            listener.progress(Progress(records, _left(starts, ends), records / (time.monotonic() - started)))
            if listener.should_stop():
                load.abandon()
                return None
        with OneBehind(load.add, listener.quarantined) as adding:
            for messages in read_to_end(consumer, table.topic, starts, ends, epochs=epochs, stalled_s=PATIENCE_S):
                versions = row_versions_of(messages)
                adding.add(versions)
                records += len(messages)
                for partition, at in _last_places(versions):
                    positions[partition] = (messages[at].offset() or 0) + 1
                    if (epoch := messages[at].leader_epoch()) is not None:
                        epochs[partition] = epoch
                listener.progress(Progress(records, _left(positions, ends), records / (time.monotonic() - started)))
                if listener.should_stop():
                    break
            adding.finish()
        if listener.should_stop():
            load.abandon()
            return None
        if topics.topic_id(table.topic) != topic_id:
            raise Retryable("the topic was deleted and made again while it was read", where=f"topic {table.topic}")
        load.finish(ends, floors, asked_at, notes={TOPIC_ID: topic_id, EPOCHS: json.dumps(epochs)})
    except BaseException:
        load.abandon()
        raise
    finally:
        consumer.close()
    return Loaded(asked_at, ends)


def _floors(topics: Topics, order: Order, asked_at: int, ends: Offsets) -> Mapping[int, HistoryFloor]:
    """From where on the topic still has every version. What compaction removed is gone without a trace; younger than
    min.compaction.lag.ms it removes nothing."""
    table, settings = order.table, order.answer.settings
    lag = 0 if settings is None else settings.min_compaction_lag_ms
    if not lag or not table.spec.history_ms:
        return {partition: HistoryFloor(end, asked_at) for partition, end in ends.items()}
    proven = asked_at - lag + _CLOCKS_DIFFER_MS
    firsts = topics.offsets_at(table.topic, proven + 1)
    # A partition whose very first record is that young never was compacted: it is whole from its start.
    return {p: HistoryFloor(min(firsts[p], end), proven) for p, end in ends.items() if firsts[p] > 0}


def _last_places(versions: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Each partition with the place of its last record in the batch."""
    partitions = versions.column("partition").to_numpy()
    for partition in np.unique(partitions).tolist():
        yield partition, int(np.flatnonzero(partitions == partition)[-1])


def _left(positions: Mapping[int, int], ends: Mapping[int, int]) -> int:
    return sum(max(0, end - positions.get(partition, 0)) for partition, end in ends.items())
