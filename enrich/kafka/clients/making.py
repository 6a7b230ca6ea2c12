"""Makes every Kafka client of the product, so that all have the same habits.

`connection` is what `librdkafka_settings` makes of the configuration's kafka section. The settings added here are
promises to the rest of the code and are not for users to change, but for the few defaults that come before it.

A consumer belongs to one thread. The client lets one in at a time, and not in turn: beside a thread that reads all the
time another waited for minutes, even for what it only looks up (confluent-kafka 2.16).
"""

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from enrich.kafka.clients.errors import kafka_errors
from enrich.kafka.clients.logs import OncePerMinute

Connection = Mapping[str, Any]

_log = logging.getLogger("librdkafka")  # quieter than the rest, see enrich/base/logs.py
_log.addFilter(OncePerMinute())

CONSUMER_QUEUE_BYTES = 16 << 20
"""What a consumer may have fetched before it is asked for it. More makes no load faster (measured)."""

_NOTICE = 5
"""Of syslog's levels, which librdkafka has: one above information."""

_PRODUCER_HABITS: Mapping[str, Any] = {
    # librdkafka's default would put a key into another partition than Java clients and Spark do.
    "partitioner": "murmur2_random",
    "acks": "all",
    "enable.idempotence": True,
    # How long a topic that nobody knows may still be one that was just made; by default a typo shows after 30 s.
    "topic.metadata.propagation.max.ms": 5000,
}
_PRODUCER_DEFAULTS: Mapping[str, Any] = {"compression.type": "lz4", "linger.ms": 5}
# Of small records the client's bookkeeping takes several times their bytes, and what an answer of a broker takes is
# kept: reading a million of them took 173 MiB with librdkafka's own defaults (100,000 records a partition, 1 MiB an
# answer and partition), 55 MiB with these, in the same time. A larger record still comes, alone.
_CONSUMER_DEFAULTS: Mapping[str, Any] = {"queued.min.messages": 20_000, "max.partition.fetch.bytes": 262_144}
_CONSUMER_HABITS: Mapping[str, Any] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "allow.auto.create.topics": False,
    # A bit that flipped on the way is an error here, not a wrong row in a table.
    "check.crcs": True,
    # The default of a second makes a consumer that fell behind its queue wait: a third of the throughput.
    "fetch.queue.backoff.ms": 10,
    "queued.max.messages.kbytes": CONSUMER_QUEUE_BYTES // 1024,
}


def new_producer(connection: Connection, **extra: Any) -> Producer:
    """A bare producer; most callers want `DeliveringProducer`, which cannot forget a failed delivery."""
    with kafka_errors():
        return Producer({**_PRODUCER_DEFAULTS, **_logged(connection), **_PRODUCER_HABITS, **extra})


def new_store_consumer(connection: Connection) -> Consumer:
    """A consumer for a store: partitions and offsets assigned by hand, no group, and an error where an offset no
    longer exists, because any other answer would silently skip or repeat rows."""
    own = {
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "group.id": "enrich.no-group",
        # A fetch that waits on the broker for news holds up the first fetch after a new assignment: 0.5 s by default.
        "fetch.wait.max.ms": 100,
    }
    with kafka_errors():
        return Consumer({**_CONSUMER_DEFAULTS, **_logged(connection), **_CONSUMER_HABITS, **own})


def new_group_consumer(connection: Connection, group: str, **extra: Any) -> Consumer:
    """A member of a group, rebalanced cooperatively, that commits when its caller says so; a new group starts at the
    beginning of its topics."""
    own = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "cooperative-sticky",
    }
    with kafka_errors():
        return Consumer({**_CONSUMER_DEFAULTS, **_logged(connection), **_CONSUMER_HABITS, **own, **extra})


class Admin(AdminClient):
    """Knows what it was made of, so that whoever gets no answer can find out why."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(_logged(connection))
        self.connection = connection


def new_admin_client(connection: Connection) -> Admin:
    with kafka_errors():
        return Admin(connection)


def _logged(connection: Connection) -> dict[str, Any]:
    # Without a logger librdkafka writes to stderr by itself, past the format and the level that the user chose.
    # Nor does it when a client ends with something left unsaid, unless that is of a lower level than this one.
    return {"client.id": "enrich", "log_level": _NOTICE, **connection, "logger": _log}
