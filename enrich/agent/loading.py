"""Loads one table whole from its topic, with a consumer of its own, beside everything else that the agent does."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from enrich.agent.tables import TopicTable
from enrich.kafka import Connection, Topics, new_admin_client, new_store_consumer, read_to_end
from enrich.kafka.records import row_versions_of
from stores.protocol import Clock, Publication, Quarantined
from stores.rocks import RocksStore
from stores.table import HistoryFloor

# For brokers that do not answer. Short, because an agent that is told to stop waits for it, and a load is tried again.
_PATIENCE_S = 5


@dataclass(frozen=True)
class Progress:
    """How far a load is. `records` counts what was read, `to_come` what the offsets say is left (gaps counted in)."""

    records: int
    to_come: int
    per_second: float


def load_table(
    store: RocksStore,
    table: TopicTable,
    connection: Connection,
    clock: Clock,
    tell: Callable[[Progress], None],
    tell_undecodable: Callable[[Sequence[Quarantined]], None],
    should_stop: Callable[[], bool],
) -> Publication | None:
    """Reads the topic from its start to the ends that it has now and shows the rows in one step.

    Returns None when told to stop. Raises what Kafka and the store raise; the table then stays as it was.
    """
    topics = Topics(new_admin_client(connection), deadline_s=_PATIENCE_S)
    asked_at = clock.now_ms()
    ends = topics.end_offsets(table.topic)
    starts = topics.start_offsets(table.topic)
    consumer = new_store_consumer(connection)
    load = store.bulk(table.name)
    try:
        started, records = time.monotonic(), 0
        positions = dict(starts)
        for messages in read_to_end(consumer, table.topic, starts, ends, stalled_s=_PATIENCE_S):
            versions, _ = row_versions_of(messages)
            tell_undecodable(load.add(versions))
            records += len(messages)
            for message in messages:
                positions[message.partition() or 0] = (message.offset() or 0) + 1
            tell(Progress(records, _left(positions, ends), records / (time.monotonic() - started)))
            if should_stop():
                load.abandon()
                return None
        # A compacted topic has lost what was overwritten: history is known to be whole from here on.
        floors = {partition: HistoryFloor(end, asked_at) for partition, end in ends.items()}
        return load.finish(ends, floors, asked_at)
    except BaseException:
        load.abandon()
        raise
    finally:
        consumer.close()


def _left(positions: Mapping[int, int], ends: Mapping[int, int]) -> int:
    return sum(max(0, end - positions.get(partition, 0)) for partition, end in ends.items())
