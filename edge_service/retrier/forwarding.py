"""Forwards records in transactions that also commit the offsets: a record is forwarded once, whoever dies when."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, Message, TopicPartition

from edge_service.retrier.plan import RetryPlan
from enrich.base.errors import BadRecord, ConfigError
from enrich.kafka import COMPACTED, Connection, Topics
from enrich.kafka.clients.errors import TOO_LARGE, code_of
from enrich.kafka.records import Place, headers_of, key_of, own_place, value_of
from enrich.kafka.retries import as_first_read, topic_id_in
from enrich.kafka.writing.dead_letters import dead_letter, fitted, record_size, sender_of
from enrich.kafka.writing.room import room_in, sized
from enrich.kafka.writing.whole_transactions import Record, WholeTransactions

DEADLINE_S = 10.0
_ABANDONED_S = 10.0
"""When the brokers end the transaction of an instance that was killed: until then nobody reads past it, and nobody may
take over its partitions."""
_TOO_LARGE = (*TOO_LARGE, KafkaError.INVALID_MSG_SIZE)


@dataclass(frozen=True)
class Rooms:
    """The largest records, in bytes, that the topics take which are written to."""

    retry_out: int
    dlq: int


def rooms_of(plan: RetryPlan, topics: Topics, connection: Connection) -> Rooms:
    return Rooms(room_in([plan.retry_out], topics, connection), room_in([plan.dlq], topics, connection))


@dataclass(frozen=True)
class Sorted:
    """A batch: what is forwarded, and what becomes dead letters since the topic does not take it."""

    good: Sequence[Record]
    dead: Sequence[Message]
    reasons: Sequence[str]
    """Of `dead`."""


class Forwarding:
    """One producer, with an id of its own: whoever does not own the partitions any more is refused with its offsets.

    After an error it must be replaced. `is_open` then says whether it is unknown if the batch was forwarded.
    """

    def __init__(self, connection: Connection, plan: RetryPlan, rooms: Rooms, partitions: int) -> None:
        """Raises what prevents it from writing."""
        self.rooms = rooms
        self._plan = plan
        self._partitions = partitions
        self._producer = WholeTransactions(
            sized(connection, (rooms.retry_out, rooms.dlq)),
            f"{plan.group}.{uuid.uuid4()}",
            deadline_s=DEADLINE_S,
            timeout_s=_ABANDONED_S,
        )
        self._producer.start()

    @property
    def is_open(self) -> bool:
        return self._producer.is_open

    def close(self) -> None:
        self._producer.close()

    def sorted_out(self, messages: Sequence[Message], refused: Mapping[Place, str]) -> "Sorted":
        """`refused`: why brokers do not take records, by their places, however small they look."""
        good: list[Record] = []
        dead: list[Message] = []
        reasons: list[str] = []
        room, partitions = self.rooms.retry_out, self._partitions
        for message in messages:
            key, value, headers = key_of(message), value_of(message), headers_of(message)
            if record_size(key, value, headers) > room:
                dead.append(message)
                reasons.append(too_large(self._plan))
            elif refused and (why := refused.get(own_place(message))) is not None:
                dead.append(message)
                reasons.append(why)
            else:
                good.append((key, value, headers, (message.partition() or 0) % partitions))
        return Sorted(good, dead, reasons)

    def forward(
        self,
        batch: "Sorted",
        done: Sequence[TopicPartition],
        group: Any,
        is_committed_next: Callable[[], object] = lambda: None,
    ) -> None:
        """`done`: the offsets after the batch. `group`: the membership by which they are committed.
        `is_committed_next` is called before that is done."""
        with self._producer.transaction():
            self._producer.produce_all(self._plan.retry_out, batch.good)
            for message, reason in zip(batch.dead, batch.reasons, strict=True):
                self._bury(message, reason)
            self._producer.send_offsets(done, group)
            is_committed_next()

    def _bury(self, message: Message, reason: str) -> None:
        origin = as_first_read(message)
        sender = sender_of(self._plan.sender, topic_id_in(headers_of(message)))
        room = max(self.rooms.dlq, 0)
        letter = dead_letter(origin, reason, stage=self._plan.route, sender=sender, largest_value=room)
        cut = fitted(letter, self.rooms.dlq)
        if cut is None:
            raise ConfigError(
                "the DLQ takes no dead letter, however short",
                where=f"topic {self._plan.dlq}",
                next_step="raise its max.message.bytes",
            )
        self._producer.produce_one(self._plan.dlq, cut.key, cut.value, headers=cut.headers)


def why_refused(plan: RetryPlan, error: BadRecord, message: Message) -> str:
    """As it stands in the dead letter."""
    code = code_of(error)
    if code in _TOO_LARGE:
        return too_large(plan)
    hint = ""
    if code == KafkaError.INVALID_RECORD and key_of(message) is None:
        hint = ": a compacted topic takes no record without a key"
    return f"the topic {plan.retry_out} does not take it ({error.what}){hint}"


def too_large(plan: RetryPlan) -> str:
    return f"it is too large for the topic {plan.retry_out}"


def make_dlq(plan: RetryPlan, topics: Topics, partitions: int) -> None:
    """Raises ConfigError without the right for it."""
    topics.ensure(plan.dlq, partitions=partitions, config=COMPACTED)
