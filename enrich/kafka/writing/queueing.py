"""Gives a record to a client whose queue may be full."""

from typing import Any

from confluent_kafka import Producer

_FULL_S = 0.05


def is_queued(producer: Producer, *record: Any, **options: Any) -> bool:
    """False if the queue was full, after a short wait. Raises what the client raises."""
    try:
        producer.produce(*record, **options)
    except BufferError:
        producer.poll(_FULL_S)
        return False
    return True
