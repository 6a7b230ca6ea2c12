"""A group's offsets are asked again while its coordinator is being elected."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from enrich.base.errors import ConfigError, Retryable
from enrich.kafka import groups
from enrich.kafka.groups import committed


class Asked:
    """A consumer whose first answers are these errors."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def committed(self, *_, **__):
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return [TopicPartition("users", 0, 7), TopicPartition("users", 1, -1001)]

    def assignment(self):
        return []

    def poll(self, _):
        return None


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(groups, "_TRY_AGAIN_S", 0.0)


def test_a_coordinator_that_is_not_elected_yet_is_asked_again():
    consumer: Any = Asked(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    assert [(place.partition, place.offset) for place in committed(consumer, "readers", "users", [0, 1])] == [(0, 7)]


def test_it_is_asked_until_the_deadline_only():
    consumer: Any = Asked(*[KafkaError.NOT_COORDINATOR] * 10)
    with pytest.raises(Retryable, match="coordinator"):
        committed(consumer, "readers", "users", [0], deadline_s=0.0)


def test_a_missing_right_is_reported_at_once():
    consumer: Any = Asked(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.NOT_COORDINATOR)
    with pytest.raises(ConfigError):
        committed(consumer, "readers", "users", [0])
    assert consumer.codes == [KafkaError.NOT_COORDINATOR]
