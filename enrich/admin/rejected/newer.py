"""Whether a key has a newer record: a letter that is replayed into a table's topic would then hide the newer row."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from enrich.admin.cluster import Cluster
from enrich.admin.reading import Report, batches_of, silent
from enrich.kafka.records import key_of


@dataclass(frozen=True, slots=True)
class RecordId:
    """Topic, partition and offset of a record."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class Origin:
    """A rejected record that is to be replayed, and the time when its letter was written."""

    key: bytes
    partition: int
    offset: int
    timestamp: int


def newer_records(
    cluster: Cluster, topic: str, origins: Collection[Origin], report: Report = silent
) -> Mapping[Origin, RecordId]:
    """For each origin whose key has a newer record, the newest one.

    In the same partition the offset decides. In another partition offsets do not compare: there every record counts
    that is not older by its time.
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
    for batch in batches_of(cluster, topic, report, starts=first):
        for message in batch:
            if (key := key_of(message)) is None or key not in by_key:
                continue
            record = RecordId(topic, message.partition() or 0, message.offset() or 0)
            for origin in by_key[key]:
                same = origin.partition == record.partition
                if record.offset > origin.offset if same else message.timestamp()[1] >= origin.timestamp:
                    found[origin] = record
    return found


def _wanted_from(partition: int, origins: Collection[Origin]) -> list[int]:
    """The offsets from which a partition is read: the whole partition, if an origin is in another one."""
    return [origin.offset + 1 if origin.partition == partition else 0 for origin in origins]
