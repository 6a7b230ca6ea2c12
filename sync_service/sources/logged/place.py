"""How far the log is in the topic: committed with the records, in one Kafka transaction."""

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import TopicPartition

from enrich.base.errors import Retryable
from enrich.kafka import Connection, new_group_consumer
from enrich.kafka.groups import committed
from enrich.kafka.writing.transactions import TransactionalProducer
from stores.external.postgres.log.visibility import Visibility
from sync_service.sources.logged.headers import Stamps

_LONGEST = 3_500
"""Bytes that brokers keep beside an offset, with a margin. Of a thousand running transactions a snapshot has more."""


@dataclass(frozen=True, slots=True)
class Place:
    """All transactions that were committed before `at` are in the topic."""

    system: str
    """Of the database cluster: another one has another log."""
    timeline: int
    """Rises when a standby takes over. It may not have got the end of the log, which is in the topic then."""
    slot: str
    at: int
    shape: str
    """Of the rows when the topic was compared with the table last."""
    seen: str = ""
    """What the comparison's snapshot sees is in the topic too."""
    seen_until: int = 0
    """From there on the log has nothing that the snapshot sees."""

    version: int = 0
    """The newest that a record has."""
    time_ms: int = 0
    """The latest that a record has."""

    @property
    def stamps(self) -> Stamps:
        return Stamps(self.version, self.time_ms)

    def advanced(self, at: int) -> "Place":
        return replace(self, at=at, seen="" if at >= self.seen_until else self.seen)

    def has(self, xids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which transactions of the log the comparison has put there already."""
        return Visibility(self.seen).sees(xids) if self.seen else np.zeros(len(xids), np.bool_)


class Places:
    """In the metadata of a consumer group's offset. The group has no members: it is only a place to keep this in."""

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        self._consumer = new_group_consumer(connection, group)
        self._group = group
        self._topic = topic

    def close(self) -> None:
        self._consumer.close()

    def read(self) -> Place | None:
        found = committed(self._consumer, self._group, self._topic, [0])
        if not found or not found[0].metadata:
            return None
        try:
            content: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(found[0].metadata)))
            return Place(**content)
        except (ValueError, TypeError, zlib.error):
            return None  # of another release: all is compared

    def write(self, place: Place, producer: TransactionalProducer) -> None:
        """With the transaction that is open."""
        metadata = base64.b64encode(zlib.compress(json.dumps(asdict(place)).encode(), 9)).decode()
        if len(metadata) > _LONGEST:
            raise Retryable("too many transactions were running when the table was read: it is read again")
        offsets: Sequence[TopicPartition] = [TopicPartition(self._topic, 0, place.at, metadata)]
        producer.send_offsets(offsets, self._consumer.consumer_group_metadata())
