"""What consumer groups have committed."""

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from enrich.base.errors import Retryable
from enrich.kafka.clients.errors import kafka_errors, mapped

_TRY_AGAIN_S = 0.1
_FIRST_S = 2.0
"""Until it is asked why there is no answer."""
_MOST_EVENTS = 100


def committed(
    consumer: Consumer, group: str, topic: str, partitions: Iterable[int], *, deadline_s: float = 10.0
) -> list[TopicPartition]:
    """What the consumer's group has committed of a topic; see `committed_of`."""
    return committed_of(consumer, group, ((topic, each) for each in partitions), deadline_s=deadline_s)


def committed_of(
    consumer: Consumer, group: str, partitions: Iterable[tuple[str, int]], *, deadline_s: float = 10.0
) -> list[TopicPartition]:
    """What the consumer's group has committed, with its metadata; without partitions where it has committed nothing. If
    the consumer reads what is committed, it waits for open transactions. Raises Retryable, and ConfigError without the
    right for it.

    Not with the admin client: its call crashes the process while a group's coordinator moves (librdkafka 2.16).
    """
    asked = [TopicPartition(*each) for each in partitions]
    if not asked:
        return []
    end = time.monotonic() + deadline_s
    patience_s = min(_FIRST_S, deadline_s)
    while True:
        try:
            with kafka_errors(f"consumer group {group}"):
                answered = consumer.committed(asked, timeout=patience_s)
                for each in answered:
                    if each.error is not None:
                        raise KafkaException(each.error)
        except Retryable:  # a newly elected coordinator has not loaded the group yet
            _require_allowed(consumer, group)
            if time.monotonic() > end:
                raise
            patience_s = deadline_s
            time.sleep(_TRY_AGAIN_S)
        else:
            return [one for one in answered if one.offset >= 0]


def _require_allowed(consumer: Consumer, group: str) -> None:
    """To who may not know of a group brokers do not even say where it is kept, and the client waits in vain. It says so
    once, beside what it has read: whoever reads hears it there."""
    with kafka_errors(f"consumer group {group}"):
        if consumer.assignment():
            return
        for _ in range(_MOST_EVENTS):
            message = consumer.poll(0)
            error = None if message is None else message.error()
            if error is None:
                return
            if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise mapped(error, f"consumer group {group}")
