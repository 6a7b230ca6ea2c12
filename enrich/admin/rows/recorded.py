"""Rows as the topic has them, without a local store: for hosts that have none, and for who does not trust it."""

from collections.abc import Collection

from confluent_kafka import Message

from enrich.admin.cluster import Cluster
from enrich.admin.reading import Tell, batches_of, silent
from stores.table import RowVersion


def recorded_versions(
    cluster: Cluster, topic: str, keys: Collection[bytes], tell: Tell = silent
) -> dict[bytes, list[RowVersion]]:
    """All records of these keys that the topic still has, by (timestamp, partition, offset), the oldest first."""
    found: dict[bytes, list[RowVersion]] = {key: [] for key in keys}
    for batch in batches_of(cluster, topic, tell):
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
