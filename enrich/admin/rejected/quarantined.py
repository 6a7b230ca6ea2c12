"""Replays and purges the quarantine of a table on this host. Only the agent, the store's writer, removes records."""

import json
import time
from collections.abc import Sequence

import pyarrow as pa

from enrich.admin.cluster import Cluster
from enrich.admin.ready import ready_reader
from enrich.admin.rejected.newer import Origin, RecordId, newer_records
from enrich.admin.rejected.replaying import NO_KEY
from enrich.base.errors import Retryable, Unreachable
from enrich.config import Pipeline
from enrich.host.ipc.requests import PURGE, ask
from enrich.host.ipc.store_paths import paths_of
from enrich.host.tables import TopicTable
from enrich.kafka.identity import REPLAYS
from enrich.kafka.writing.room import sized_for
from enrich.kafka.writing.whole_transactions import whole_transaction
from stores.protocol import Quarantined

# These texts are keys in the JSON of `enrich quarantine replay`: they must not change.
STILL_BAD = "it still cannot become a row"
NEWER = "its key has something newer in the topic"
_LOOK_EVERY_S = 0.05


def replayable(
    cluster: Cluster, table: TopicTable, records: Sequence[Quarantined]
) -> tuple[list[Quarantined], dict[str, list[Quarantined]], dict[Quarantined, RecordId]]:
    """Records that can go back into the topic, those that cannot, by reason, and the newer records of their keys."""
    bad = table.spec.decoder.decode(pa.array([record.value for record in records], pa.binary())).bad
    origins = {
        Origin(record.key, record.partition, record.offset, record.timestamp): record
        for record in records
        if record.key is not None
    }
    newer = {origins[origin]: record for origin, record in newer_records(cluster, table.topic, origins).items()}
    good: list[Quarantined] = []
    left: dict[str, list[Quarantined]] = {}
    for index, record in enumerate(records):
        reason = NO_KEY if record.key is None else STILL_BAD if index in bad else NEWER if record in newer else None
        if reason is None:
            good.append(record)
        else:
            left.setdefault(reason, []).append(record)
    return good, left, newer


def send_back(cluster: Cluster, table: TopicTable, records: Sequence[Quarantined]) -> None:
    """Writes the records in one transaction. If it is killed right after that, a second replay writes none again: each
    key then has a newer record, the replayed one."""
    identity = f"enrich.quarantine.{table.topic}"
    connection = sized_for([table.topic], cluster.topics, cluster.connection)
    with whole_transaction(connection, identity, cluster.deadline_s) as producer:
        for record in records:
            producer.produce_one(table.topic, record.key, record.value, headers={REPLAYS: b"1"})


def purge_quarantine(pipeline: Pipeline, table: str, records: Sequence[Quarantined], deadline_s: float) -> None:
    """Returns once the records are gone from this host's store. Raises Unreachable at the deadline."""
    ids = {record.id for record in records}
    if not ids:
        return
    body = json.dumps([list(one) for one in ids]).encode()
    end = time.monotonic() + deadline_s
    with ready_reader(pipeline, table, deadline_s) as (reader, _):
        ask(paths_of(pipeline).folder, "POST", PURGE + table, body)
        while time.monotonic() < end:
            try:
                left = {one.id for one in reader.snapshot().table(table).quarantined()}
            except Retryable:
                left = ids
            if not left & ids:
                return
            time.sleep(_LOOK_EVERY_S)
    raise Unreachable(
        f"the agent did not purge the records within {deadline_s:g} s", next_step="run `enrich agent status`"
    )
