"""Rows read straight from the topic: for hosts without a local store, or if the store is not trusted."""

from collections.abc import Collection

from confluent_kafka import Message

from enrich.admin.cluster import Cluster
from enrich.admin.reading import Report, batches_of, silent
from enrich.kafka.records import key_of, value_of
from stores.table import RowVersion


def recorded_versions(
    cluster: Cluster, topic: str, keys: Collection[bytes], report: Report = silent
) -> dict[bytes, list[RowVersion]]:
    """All records of these keys that the topic still has, sorted by (timestamp, partition, offset)."""
    found: dict[bytes, list[RowVersion]] = {key: [] for key in keys}
    for batch in batches_of(cluster, topic, report):
        for message in batch:
            if (key := key_of(message)) in found:
                found[key].append(_version(message))
    for versions in found.values():
        versions.sort(key=lambda version: (version.timestamp, version.partition, version.offset))
    return found


def _version(message: Message) -> RowVersion:
    offset, (_, time_ms) = message.offset() or 0, message.timestamp()
    return RowVersion(key_of(message) or b"", message.partition() or 0, offset, time_ms, value_of(message))
