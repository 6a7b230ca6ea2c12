"""Keeps place and states in Kafka, written in the transaction of the records that they are about."""

import base64
import json
import zlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any, Protocol

from confluent_kafka import TopicPartition

from enrich.base.errors import ConfigError, Retryable
from enrich.kafka import Connection, Topics, new_group_consumer, read_topic
from enrich.kafka.groups import committed
from enrich.kafka.records import key_of, value_of
from enrich.kafka.writing.transactions import TransactionalProducer
from sync_service.sources.logged.place import Place, TableState

_LONGEST = 3_500
"""Bytes that brokers keep beside an offset, with a margin. Of a thousand running transactions a snapshot has more."""

States = Mapping[str, TableState]


class Keeping(Protocol):
    def read(self) -> tuple[Place | None, dict[str, TableState]]:
        """What was written last. None: nothing, or by another release."""

    def write(self, place: Place, changed: States, producer: TransactionalProducer) -> None:
        """With the transaction that is open."""

    def close(self) -> None: ...


class Beside:
    """In the metadata of a consumer group's offset. The group has no members: it is only a place to keep this in.

    All of it is written each time, so it is for a source of one table.
    """

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        self._consumer = new_group_consumer(connection, group)
        self._group = group
        self._topic = topic
        self._states: dict[str, TableState] = {}

    def close(self) -> None:
        self._consumer.close()

    def read(self) -> tuple[Place | None, dict[str, TableState]]:
        self._states = {}
        found = committed(self._consumer, self._group, self._topic, [0])
        if not found or not found[0].metadata:
            return None, {}
        try:
            content: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(found[0].metadata)))
            states = {name: TableState(**state) for name, state in content.pop("tables").items()}
            place = Place(**content)
        except (ValueError, TypeError, KeyError, AttributeError, zlib.error):
            return None, {}  # of another release: all is compared
        if len(states) > 1:  # of tables that had their turns, by an earlier release: the place is of the last one
            states = {}
        self._states = states
        return place, dict(states)

    def write(self, place: Place, changed: States, producer: TransactionalProducer) -> None:
        if changed:
            self._states = dict(changed)  # of the table that was named before, what the place has passed is not there
        self._states = {name: state.passed(place.at) for name, state in self._states.items()}
        content = {**asdict(place), "tables": {name: asdict(state) for name, state in self._states.items()}}
        metadata = base64.b64encode(zlib.compress(json.dumps(content).encode(), 9)).decode()
        if len(metadata) > _LONGEST:
            raise Retryable("too many transactions were running when the table was read: it is read again")
        offsets = [TopicPartition(self._topic, 0, place.at, metadata)]
        producer.send_offsets(offsets, self._consumer.consumer_group_metadata())


def unsettle(connection: Connection, group: str, topic: str, producer: TransactionalProducer) -> None:
    """For another kind of source that writes to the topic from now on: if the log is followed again, all is compared.
    Who may not see the group never followed it."""
    with closing(Beside(connection, group, topic)) as kept:
        try:
            place, states = kept.read()
        except ConfigError:
            return
        if place is not None and any(state.is_followed for state in states.values()):
            with producer.transaction():
                kept.write(place, {name: state.anew() for name, state in states.items()}, producer)


class InTopic:
    """The states of many tables in a compacted topic, each written when it changes; the place as for one table."""

    def __init__(self, connection: Connection, group: str, topic: str, topics: Topics) -> None:
        self._beside = Beside(connection, group, topic)
        self._connection = connection
        self._topic = topic
        self._topics = topics

    def close(self) -> None:
        self._beside.close()

    def read(self) -> tuple[Place | None, dict[str, TableState]]:
        place, _ = self._beside.read()
        states: dict[str, TableState] = {}
        starts, ends = self._topics.start_offsets(self._topic), self._topics.end_offsets(self._topic)
        for messages in read_topic(self._connection, self._topic, starts, ends):
            for message in messages:
                name, value = (key_of(message) or b"").decode(), value_of(message)
                state = None if value is None else _state(value)
                if state is None:
                    states.pop(name, None)
                else:
                    states[name] = state
        return place, states

    def write(self, place: Place, changed: States, producer: TransactionalProducer) -> None:
        if changed:
            values = [json.dumps(asdict(state)).encode() for state in changed.values()]
            producer.produce(self._topic, [name.encode() for name in changed], list(values))
        self._beside.write(place, {}, producer)


def _state(value: bytes) -> TableState | None:
    try:
        return TableState(**json.loads(value))
    except (ValueError, TypeError):
        return None  # of another release: it is compared
