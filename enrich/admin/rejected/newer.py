"""Whether a key has a newer record: a letter that is replayed into a table's topic would then hide the newer row."""

from collections.abc import Collection, Container, Iterator, Mapping
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
    that is not older by its time. So it is in all partitions for a record that does not stand in its place any more:
    the topic may have been made again since.
    """
    by_key: dict[bytes, list[Origin]] = {}
    for origin in origins:
        by_key.setdefault(origin.key, []).append(origin)
    if not by_key:
        return {}
    starts, ends = cluster.topics.start_offsets(topic), cluster.topics.end_offsets(topic)
    first = {
        partition: min(ends[partition], max(start, min(_wanted_from(partition, origins), default=start)))
        for partition, start in starts.items()
    }
    found: dict[Origin, RecordId] = {}
    in_place = set[Origin]()
    for key, record, time_ms in _records(cluster, topic, by_key, report, first):
        for origin in by_key[key]:
            if (origin.partition, origin.offset) == (record.partition, record.offset):
                # What stands there since the topic was made again is newer.
                if time_ms <= origin.timestamp:
                    in_place.add(origin)
            elif record.offset > origin.offset if origin.partition == record.partition else time_ms >= origin.timestamp:
                found[origin] = record
    displaced = {origin for origin in origins if origin not in in_place and origin not in found}
    if displaced:
        for key, record, time_ms in _records(cluster, topic, {each.key for each in displaced}, report, starts):
            found |= {each: record for each in displaced.intersection(by_key[key]) if time_ms >= each.timestamp}
    return found


def _records(
    cluster: Cluster, topic: str, keys: Container[bytes], report: Report, starts: Mapping[int, int]
) -> Iterator[tuple[bytes, RecordId, int]]:
    """Of these keys, with their time."""
    for batch in batches_of(cluster, topic, report, starts=starts):
        for message in batch:
            key = key_of(message)
            if key is not None and key in keys:
                place = RecordId(topic, message.partition() or 0, message.offset() or 0)
                yield key, place, message.timestamp()[1]


def _wanted_from(partition: int, origins: Collection[Origin]) -> list[int]:
    """The offsets from which a partition is read: the whole partition, if an origin is in another one."""
    return [origin.offset if origin.partition == partition else 0 for origin in origins]
