"""Whether a key got anything since: a letter that went back into a table would then hide what is right."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from enrich.admin.cluster import Cluster
from enrich.admin.reading import Tell, batches_of, silent


@dataclass(frozen=True, slots=True)
class RecordId:
    """Where a record stands."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class Origin:
    """A record that somebody wants back in its table, and the time that its letter was written."""

    key: bytes
    partition: int
    offset: int
    timestamp: int


def newer_records(
    cluster: Cluster, topic: str, origins: Collection[Origin], tell: Tell = silent
) -> Mapping[Origin, RecordId]:
    """Of those whose key has a later record, the latest one.

    In the same partition the offset decides. In another one, where no offset can, whatever is not older counts.
    """
    by_key: dict[bytes, list[Origin]] = {}
    for origin in origins:
        by_key.setdefault(origin.key, []).append(origin)
    found: dict[Origin, RecordId] = {}
    if not by_key:
        return found
    starts = cluster.topics.start_offsets(topic)
    first = {
        partition: max(start, min(_wanted_from(partition, origins), default=start))
        for partition, start in starts.items()
    }
    for batch in batches_of(cluster, topic, tell, starts=first):
        for message in batch:
            key = message.key()
            if key not in by_key:
                continue
            place = RecordId(topic, message.partition() or 0, message.offset() or 0)
            for origin in by_key[key if isinstance(key, bytes) else b""]:
                same = origin.partition == place.partition
                if place.offset > origin.offset if same else message.timestamp()[1] >= origin.timestamp:
                    found[origin] = place
    return found


def _wanted_from(partition: int, origins: Collection[Origin]) -> list[int]:
    """From where on a partition is read; all of it, when a key might have come from another one."""
    return [origin.offset + 1 if origin.partition == partition else 0 for origin in origins]
