"""Rows read straight from the topic: for hosts without a local store, or if the store is not trusted."""

from collections.abc import Collection

from confluent_kafka import Message

from enrich.admin.cluster import Cluster
from enrich.admin.reading import Report, batches_of, silent
from stores.table import RowVersion


def recorded_versions(
    cluster: Cluster, topic: str, keys: Collection[bytes], report: Report = silent
) -> dict[bytes, list[RowVersion]]:
    """All records of these keys that the topic still has, sorted by (timestamp, partition, offset)."""
    found: dict[bytes, list[RowVersion]] = {key: [] for key in keys}
    for batch in batches_of(cluster, topic, report):
        for message in batch:
            key = message.key()
            if key in found:
                found[key].append(_version(message))
    for versions in found.values():
        versions.sort(key=lambda version: (version.timestamp, version.partition, version.offset))
    return found


def _version(message: Message) -> RowVersion:
    key, value = message.key(), message.value()
    return RowVersion(
        key if isinstance(key, bytes) else b"",
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        value if value is None or isinstance(value, bytes) else value.encode(),
    )
