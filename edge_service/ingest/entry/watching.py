"""Whether the topics of the entries can be written to: looked at by a thread, at the start and now and then."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin._acl import AclOperation

from enrich.base.errors import ConfigError, EnrichError, Unreachable
from enrich.kafka import Connection, Topics, new_admin_client, trouble_with
from enrich.kafka.clients.errors import code_of, kafka_errors
from enrich.kafka.topic_settings import is_compacted, largest_row

_log = logging.getLogger("enrich.ingest")

_EVERY_S = 5.0
_AGAIN_S = 1.0
"""While something is wrong."""
_DEADLINE_S = 3.0
MOST_BYTES = 1_000_000_000
"""The largest record that a producer can be made to take."""


@dataclass(frozen=True)
class TopicState:
    """A topic, when it was last looked at."""

    trouble: EnrichError | None = None
    """Why nothing can be written to it."""
    largest: int | None = None
    """Bytes of key and value that it takes together; None if that is not known."""


class TopicWatch(threading.Thread):
    """Reports the states of topics, each time all of them, until it is stopped."""

    def __init__(
        self,
        connection: Connection,
        topics: Mapping[str, str],
        keyless: Collection[str],
        report: Callable[[Mapping[str, TopicState]], None],
    ) -> None:
        """`topics`: with the key of the configuration that names each. `keyless`: those that get events without keys.
        `report` is called by the thread."""
        super().__init__(name="topics", daemon=True)
        self._connection = connection
        self._topics = topics
        self._keyless = keyless
        self._report = report
        self._stopping = threading.Event()
        self._admin = new_admin_client(connection)
        self._settings = Topics(self._admin, _DEADLINE_S)
        self._logged: dict[str, str] = {}

    def run(self) -> None:
        while not self._stopping.is_set():
            states = self._look()
            for topic, state in states.items():
                self._log_news(topic, state)
            self._report(states)
            is_fine = all(state.trouble is None for state in states.values())
            self._stopping.wait(_EVERY_S if is_fine else _AGAIN_S)

    def stop(self) -> None:
        self._stopping.set()

    def _look(self) -> Mapping[str, TopicState]:
        futures = self._admin.describe_topics(
            TopicCollection(list(self._topics)), include_authorized_operations=True, request_timeout=_DEADLINE_S
        )
        states = {topic: self._state(topic, future) for topic, future in futures.items()}
        if all(isinstance(state.trouble, Unreachable) for state in states.values()):
            why = trouble_with(self._connection)  # the client only knows that nobody answers
            if why is not None:
                return dict.fromkeys(states, TopicState(why.error()))
        return states

    def _state(self, topic: str, future: Any) -> TopicState:
        where = self._topics[topic]
        try:
            with kafka_errors(f"topic {topic}"):
                description = future.result(timeout=_DEADLINE_S + 5)
        except TimeoutError:
            return TopicState(Unreachable(f"no answer from the brokers within {_DEADLINE_S:g} s", where=where))
        except EnrichError as error:
            return TopicState(self._why_undescribed(topic, error))
        allowed = description.authorized_operations  # None, or empty: the brokers have no authorizer
        if allowed and not {AclOperation.WRITE, AclOperation.ALL} & {*allowed}:
            return TopicState(_lacks("WRITE", topic, where))
        try:
            settings = self._settings.settings(topic)
        except EnrichError:  # without the right to read them we go by the defaults
            return TopicState()
        largest = self._largest(settings)
        if topic in self._keyless and is_compacted(settings):
            return TopicState(_needs_keys(topic, where), largest)
        return TopicState(largest=largest)

    def _why_undescribed(self, topic: str, error: EnrichError) -> EnrichError:
        where, code = self._topics[topic], code_of(error)
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return ConfigError(
                f"the topic {topic} does not exist", where=where, next_step="make it: enrich topics apply"
            )
        return _lacks("DESCRIBE", topic, where) if code == KafkaError.TOPIC_AUTHORIZATION_FAILED else error

    def _largest(self, settings: Mapping[str, str]) -> int:
        # Our producer takes what the topic takes, unless the configuration says less.
        return largest_row({"message.max.bytes": MOST_BYTES, **self._connection}, settings)

    def _log_news(self, topic: str, state: TopicState) -> None:
        text = "" if state.trouble is None else str(state.trouble)
        before = self._logged.get(topic)
        self._logged[topic] = text
        if before is None and isinstance(state.trouble, ConfigError):
            return  # at the start that is raised
        if text and text != before:
            _log.warning("nothing can be written to topic %s: %s", topic, text)
        elif before and not text:
            _log.info("topic %s can be written to again", topic)


def _needs_keys(topic: str, where: str) -> ConfigError:
    return ConfigError(
        f"the topic {topic} is compacted: it takes no event without a key",
        where=where,
        next_step="give the entry a `key`, or choose a topic that is not compacted",
    )


def _lacks(right: str, topic: str, where: str) -> ConfigError:
    return ConfigError(
        f"this user lacks {right} on topic {topic}",
        where=where,
        next_step="grant this user WRITE and DESCRIBE on the topic",
    )
