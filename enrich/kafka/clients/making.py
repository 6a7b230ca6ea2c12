"""Creates every Kafka client of the product, so that all have the same settings.

`connection` is what `librdkafka_settings` returns for the configuration's kafka section. The rest of the code relies on
the settings that are added here, so users cannot change them, except for a few defaults.

A consumer belongs to one thread. The client locks it, and not fairly: beside a thread that polled all the time another
one waited for minutes, even for a simple query (confluent-kafka 2.16).
"""

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from enrich.kafka.clients.errors import kafka_errors
from enrich.kafka.clients.logs import OncePerMinute

Connection = Mapping[str, Any]

_log = logging.getLogger("librdkafka")  # with a level of its own, see enrich/base/logs.py
_log.addFilter(OncePerMinute())

CONSUMER_QUEUE_BYTES = 16 << 20
"""How much a consumer may prefetch. More makes no load faster (measured)."""

_NOTICE = 5
"""A syslog level, as librdkafka uses them: one above informational."""

_PRODUCER_HABITS: Mapping[str, Any] = {
    # With librdkafka's default a key goes to another partition than with Java clients and Spark.
    "partitioner": "murmur2_random",
    "acks": "all",
    "enable.idempotence": True,
    # How long an unknown topic is taken for one that was just created. By default a typo shows after 30 s.
    "topic.metadata.propagation.max.ms": 5000,
}
_QUEUE = "queue.buffering.max.kbytes"
_PRODUCER_DEFAULTS: Mapping[str, Any] = {"compression.type": "lz4", "linger.ms": 5}
# Small records take several times their size in the client's queue, and the buffer of a fetch response is kept: reading
# a million of them took 173 MiB with librdkafka's defaults (100,000 records per partition, 1 MiB per response and
# partition), 55 MiB with these, in the same time. A larger record is still fetched, alone.
_CONSUMER_DEFAULTS: Mapping[str, Any] = {"queued.min.messages": 20_000, "max.partition.fetch.bytes": 262_144}
# When a group's coordinator comes back, librdkafka may sleep until the state of some broker changes: one in a hundred
# members that were joining when the broker was killed joined only with the next metadata, after five minutes. See
# docs/adr/0066.
_MEMBER_DEFAULTS: Mapping[str, Any] = {**_CONSUMER_DEFAULTS, "topic.metadata.refresh.interval.ms": 5_000}
_CONSUMER_HABITS: Mapping[str, Any] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "allow.auto.create.topics": False,
    # A flipped bit must be an error here, not a wrong row in a table.
    "check.crcs": True,
    # With the default of 1 s a consumer whose queue was full fetches again too late: a third of the throughput.
    "fetch.queue.backoff.ms": 10,
    "queued.max.messages.kbytes": CONSUMER_QUEUE_BYTES // 1024,
}


def new_producer(connection: Connection, **extra: Any) -> Producer:
    """A plain producer; most callers want `DeliveringProducer`, which cannot miss a failed delivery."""
    settings = {**_PRODUCER_DEFAULTS, **_logged(connection), **_PRODUCER_HABITS, **extra}
    if _QUEUE in settings:
        # In a smaller queue the largest record would never find room, and whoever writes it would wait for ever.
        settings[_QUEUE] = max(int(settings[_QUEUE]), int(settings.get("message.max.bytes", 0)) // 1024 + 1)
    with kafka_errors():
        return Producer(settings)


def new_store_consumer(connection: Connection, *, fetch_wait_ms: int = 100) -> Consumer:
    """A consumer for a store: partitions and offsets are assigned manually, without a group. It raises if an offset no
    longer exists: anything else would silently skip or repeat rows.

    `fetch_wait_ms`: how long a fetch waits that finds nothing. The first fetch after a new assignment waits for it too;
    but each one names all partitions.
    """
    own = {
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "group.id": "enrich.no-group",
        "fetch.wait.max.ms": fetch_wait_ms,
    }
    with kafka_errors():
        return Consumer({**_CONSUMER_DEFAULTS, **_reading(connection), **_CONSUMER_HABITS, **own})


def new_assigned_consumer(connection: Connection, group: str, **extra: Any) -> Consumer:
    """A consumer of partitions that are assigned to it, which knows what a group has committed of them, and is no
    member of it. It raises if an offset no longer exists."""
    own = {"auto.offset.reset": "error", "group.id": group, "fetch.wait.max.ms": 100}
    with kafka_errors():
        return Consumer({**_MEMBER_DEFAULTS, **_reading(connection), **_CONSUMER_HABITS, **own, **extra})


def new_group_consumer(connection: Connection, group: str, **extra: Any) -> Consumer:
    """A member of a group with cooperative rebalancing, which commits only explicitly. A new group starts at the
    beginning of its topics."""
    own = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "cooperative-sticky",
    }
    with kafka_errors():
        return Consumer({**_MEMBER_DEFAULTS, **_reading(connection), **_CONSUMER_HABITS, **own, **extra})


class Admin(AdminClient):
    """An admin client that keeps its settings, so that it can be found out why brokers do not answer."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(_logged(connection))
        self.connection = connection


def new_admin_client(connection: Connection) -> Admin:
    with kafka_errors():
        return Admin(connection)


def _reading(connection: Connection) -> dict[str, Any]:
    # A consumer refuses an answer to a fetch that is smaller than the largest record of a producer.
    return {name: value for name, value in _logged(connection).items() if name != "message.max.bytes"}


def _logged(connection: Connection) -> dict[str, Any]:
    # Without a logger librdkafka writes to stderr, ignoring the log format and level that the user chose. `log_level`
    # keeps it from doing so for messages that are left when a client ends, down to this level.
    return {"client.id": "enrich", "log_level": _NOTICE, **connection, "logger": _log}
