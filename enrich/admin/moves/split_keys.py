"""Keys that are in several partitions of the old topic. In the new one each is in one, with the right last record."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from confluent_kafka import Message

from enrich.admin.census import hashes_of
from enrich.admin.cluster import Cluster
from enrich.admin.reading import Report, batches_of
from enrich.kafka.records import key_of


class SplitKeys:
    """The newest message of each split key in each partition. The key's row is the greatest of them by (timestamp,
    partition, offset), as in every table."""

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._newest: dict[bytes, dict[int, Message]] = {key: {} for key in keys}
        self._shown: dict[bytes, Message] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._newest

    def __len__(self) -> int:
        return len(self._newest)

    def take(self, message: Message) -> Message | None:
        """The message that the new topic gets; None if the key's row does not change."""
        key = key_of(message) or b""
        newest = self._newest[key]
        newest[message.partition() or 0] = message
        best = max(newest.values(), key=_order)
        if self._shown.get(key) is best:
            return None
        self._shown[key] = best
        return best

    def rows(self) -> Iterator[Message]:
        """The rows of these keys that the new topic must have so far."""
        return iter(self._shown.values())


def _order(message: Message) -> tuple[int, int, int]:
    return message.timestamp()[1], message.partition() or 0, message.offset() or 0


@dataclass(frozen=True)
class Found:
    """The result of a first read of the old topic."""

    split: SplitKeys
    partitions: int


def find_split_keys(cluster: Cluster, topic: str, copied: Mapping[int, int], report: Report) -> Found:
    """The current split keys, with their messages that were copied already: those below the offsets `copied`."""
    starts, ends = cluster.topics.start_offsets(topic), cluster.topics.end_offsets(topic)
    suspects = _suspects(cluster, topic, starts, ends, report)
    if not len(suspects):
        return Found(SplitKeys(), len(ends))
    partitions_of: dict[bytes, set[int]] = {}
    messages: list[Message] = []
    for batch in batches_of(cluster, topic, report, starts=starts, ends=ends):
        keys = [key_of(message) for message in batch]
        for index in np.flatnonzero(np.isin(hashes_of(keys), suspects)).tolist():
            key, message = keys[index], batch[index]
            if key is not None:
                partitions_of.setdefault(key, set()).add(message.partition() or 0)
                if (message.offset() or 0) < copied.get(message.partition() or 0, 0):
                    messages.append(message)
    split = SplitKeys(key for key, partitions in partitions_of.items() if len(partitions) > 1)
    for message in messages:
        if message.key() in split:
            split.take(message)
    return Found(split, len(ends))


def _suspects(
    cluster: Cluster, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], report: Report
) -> npt.NDArray[np.uint64]:
    """Hashes that are in two partitions. Takes eight bytes of memory for each key and partition."""
    seen: dict[int, npt.NDArray[np.uint64]] = {}
    for batch in batches_of(cluster, topic, report, starts=starts, ends=ends):
        hashes = hashes_of([message.key() for message in batch])
        has_key = np.array([message.key() is not None for message in batch])
        partitions = np.array([message.partition() for message in batch])
        for partition in np.unique(partitions).tolist():
            mine = hashes[(partitions == partition) & has_key]
            before = seen.get(partition)
            seen[partition] = np.unique(mine if before is None else np.concatenate([before, mine]))
    joined = np.sort(np.concatenate(list(seen.values()))) if seen else np.empty(0, np.uint64)
    return np.unique(joined[1:][joined[1:] == joined[:-1]])
