"""Settings of `kafka.client`: named as in Apache Kafka's Java clients, each with librdkafka's name.

The list is curated: a setting is here if it tunes speed or time-outs and means the same for both clients, or nothing
for librdkafka. Settings that would break a guarantee of ours are refused: client_refusals.py says why.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, create_model

from enrich.config.sections.kafka.client_refusals import why_refused
from enrich.config.types.fields import Between, Flag, Section, Text, one_of

_INT32 = 2**31 - 1

SettingValue = str | int | bool


class Role(StrEnum):
    """Which clients a setting is for: all, or only one kind, since the other would log a warning."""

    common = "common"
    producer = "producer"
    consumer = "consumer"


class CompressionType(StrEnum):
    none = "none"
    gzip = "gzip"
    snappy = "snappy"
    lz4 = "lz4"
    zstd = "zstd"


class DnsLookup(StrEnum):
    use_all_dns_ips = "use_all_dns_ips"
    resolve_canonical_bootstrap_servers_only = "resolve_canonical_bootstrap_servers_only"


@dataclass(frozen=True)
class ClientSetting:
    """One setting, with the values that both clients accept."""

    name: str
    role: Role
    kind: type[str] | type[bool] | type[StrEnum] | Between
    meaning: str
    librdkafka: str | None
    unit: int = 1
    """How many of Java's units one of librdkafka's units is."""

    def for_librdkafka(self, value: SettingValue) -> SettingValue:
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        return max(1, value // self.unit)


_SAME = "same"


def _setting(name: str, role: Role, kind: Any, meaning: str, librdkafka: str | None = _SAME) -> ClientSetting:
    unit = 1024 if librdkafka is not None and librdkafka.endswith("kbytes") else 1
    return ClientSetting(name, role, kind, meaning, name if librdkafka == _SAME else librdkafka, unit)


_ALL, _PRODUCER, _CONSUMER = Role.common, Role.producer, Role.consumer
_MS = Between(1, 300_000)

CLIENT_SETTINGS: tuple[ClientSetting, ...] = (
    _setting("client.id", _ALL, str, "Name of the client in the brokers' logs and quotas."),
    _setting("client.rack", _CONSUMER, str, "Rack or zone of the client: consumers read from the nearest replica."),
    _setting("client.dns.lookup", _ALL, DnsLookup, "How server names are resolved to addresses."),
    _setting("connections.max.idle.ms", _ALL, Between(1000, _INT32), "Close connections idle for so long."),
    _setting("metadata.max.age.ms", _ALL, Between(10, 86_400_000), "Refresh topic metadata at least so often."),
    _setting("reconnect.backoff.ms", _ALL, Between(0, 3_600_000), "First pause before connecting again."),
    _setting("reconnect.backoff.max.ms", _ALL, Between(0, 3_600_000), "Longest pause before connecting again."),
    _setting("retry.backoff.ms", _ALL, _MS, "First pause before a request is sent again."),
    _setting("retry.backoff.max.ms", _ALL, _MS, "Longest pause before a request is sent again."),
    _setting(
        "request.timeout.ms", _ALL, Between(1000, 300_000), "How long to wait for an answer.", "socket.timeout.ms"
    ),
    _setting("send.buffer.bytes", _ALL, Between(1, 100_000_000), "TCP send buffer.", "socket.send.buffer.bytes"),
    _setting(
        "receive.buffer.bytes", _ALL, Between(1, 100_000_000), "TCP receive buffer.", "socket.receive.buffer.bytes"
    ),
    _setting("socket.connection.setup.timeout.ms", _ALL, Between(1000, _INT32), "How long connecting may take."),
    _setting("socket.connection.setup.timeout.max.ms", _ALL, Between(1000, _INT32), "The same after failures.", None),
    _setting("enable.metrics.push", _ALL, bool, "Let the brokers collect the client's metrics."),
    _setting("batch.size", _PRODUCER, Between(1, _INT32), "Largest batch for a partition, in bytes."),
    _setting("linger.ms", _PRODUCER, Between(0, 900_000), "How long to wait for a batch to fill."),
    _setting(
        "compression.type", _PRODUCER, CompressionType, "Compression of batches: none, gzip, snappy, lz4 or zstd."
    ),
    _setting(
        "buffer.memory",
        _PRODUCER,
        Between(2**20, _INT32),
        "Memory for records not sent yet, in bytes.",
        "queue.buffering.max.kbytes",
    ),
    _setting("max.block.ms", _PRODUCER, Between(0, _INT32), "How long Java's send() may block.", None),
    _setting("delivery.timeout.ms", _PRODUCER, Between(1000, _INT32), "How long an acknowledgement may take."),
    _setting("max.request.size", _PRODUCER, Between(1000, 10**9), "Largest request, in bytes.", "message.max.bytes"),
    _setting(
        "max.in.flight.requests.per.connection",
        _PRODUCER,
        Between(1, 5),
        "Requests under way at once; 1 to 5, since more would break idempotence.",
    ),
    _setting("fetch.min.bytes", _CONSUMER, Between(1, 100_000_000), "Least data in the answer to a fetch."),
    _setting(
        "fetch.max.wait.ms", _CONSUMER, Between(0, 30_000), "How long to wait for that much.", "fetch.wait.max.ms"
    ),
    _setting("fetch.max.bytes", _CONSUMER, Between(10**6, _INT32 - 512), "Largest answer to a fetch, in bytes."),
    _setting(
        "max.partition.fetch.bytes", _CONSUMER, Between(1, 10**9), "Largest share of a partition in it, in bytes."
    ),
    _setting("max.poll.records", _CONSUMER, Between(1, _INT32), "Most records of one poll(); Java only.", None),
    _setting("max.poll.interval.ms", _CONSUMER, Between(1, 86_400_000), "Longest time between two polls."),
    _setting(
        "session.timeout.ms", _CONSUMER, Between(1, 3_600_000), "When a group member without heartbeats is dropped."
    ),
    _setting("heartbeat.interval.ms", _CONSUMER, Between(1, 3_600_000), "How often a group member sends a heartbeat."),
    _setting("default.api.timeout.ms", _CONSUMER, Between(1, _INT32), "Time-out of blocking calls; Java only.", None),
)

AT_MOST: tuple[tuple[str, int, str, int], ...] = (
    ("reconnect.backoff.ms", 100, "reconnect.backoff.max.ms", 1000),
    ("retry.backoff.ms", 100, "retry.backoff.max.ms", 1000),
    ("heartbeat.interval.ms", 3000, "session.timeout.ms", 45_000),
    ("session.timeout.ms", 45_000, "max.poll.interval.ms", 300_000),
)
"""(smaller, its default, larger, its default): clients refuse to start if the first exceeds the second. If the two
clients' defaults differ, this has the stricter one."""


class _Settings(Section):
    def given(self) -> dict[str, SettingValue]:
        """The settings that the file names, by Java's names."""
        return self.model_dump(mode="json", exclude_none=True)

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        yield from self.given().items()

    @classmethod
    def why_refused(cls, key: str) -> str | None:
        known = next((setting.name for setting in CLIENT_SETTINGS if setting.librdkafka == key), None)
        return why_refused(key) if known is None else f"this is librdkafka's name; write {known}"


def _type_of(setting: ClientSetting) -> Any:
    kind: Any = setting.kind
    if isinstance(kind, Between):
        return Annotated[int, kind]
    if kind in (str, bool):
        return Text if kind is str else Flag
    return Annotated[kind, one_of(kind)]


if TYPE_CHECKING:
    ClientSettings = _Settings
else:
    # A model like the other sections', so that unknown names, types, ranges and JSON Schema are handled alike.
    ClientSettings = create_model(
        "ClientSettings",
        __base__=_Settings,
        __doc__="Settings for the Kafka clients, named as in Java's.",
        **{
            setting.name.replace(".", "_"): (
                _type_of(setting) | None,
                Field(default=None, alias=setting.name, description=setting.meaning),
            )
            for setting in CLIENT_SETTINGS
        },
    )
