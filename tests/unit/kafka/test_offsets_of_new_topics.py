"""A broker knows a new topic a moment before it has made the topic's partitions."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from enrich.base.errors import ConfigError
from enrich.kafka import topics as module
from enrich.kafka.topics import Topics


class BusyBroker:
    """Describes the topic at once, and answers for its partition only after so many questions."""

    connection: ClassVar[dict[str, Any]] = {}

    def __init__(self, unmade: int) -> None:
        self._unmade = unmade

    def describe_topics(self, _asked: Any, **_: Any) -> dict[str, "Future[Any]"]:
        return {"new": _done(SimpleNamespace(topic_id="id", partitions=[SimpleNamespace(id=0)]))}

    def list_offsets(self, asked: Any, **_: Any) -> dict[Any, "Future[Any]"]:
        (place,) = asked
        self._unmade -= 1
        if self._unmade >= 0:
            unknown: Future[Any] = Future()
            unknown.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
            return {place: unknown}
        return {place: _done(SimpleNamespace(offset=7))}


def test_it_is_asked_again_until_the_partitions_are_made() -> None:
    assert Topics(BusyBroker(unmade=3)).end_offsets("new") == {0: 7}  # type: ignore[arg-type] # as much as is asked of it


def test_it_is_an_error_if_they_never_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_UNMADE_S", 0.2)
    with pytest.raises(ConfigError, match="Unknown topic or partition"):
        Topics(BusyBroker(unmade=10**9)).end_offsets("new")  # type: ignore[arg-type] # the same


def _done(result: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(result)
    return future
