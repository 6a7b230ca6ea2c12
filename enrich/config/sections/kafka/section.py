"""The section `kafka`: brokers and authentication, in one form for Spark and librdkafka."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from enrich.config.messages.words import Substituted, Wrong, shown
from enrich.config.sections.kafka.client_settings import ClientSettings
from enrich.config.types.fields import LIST_OR_TEXT, HttpUrl, LocalPath, Secret, Section, Text, as_text, one_of

_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.%\w]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")


class Protocol(StrEnum):
    plaintext = "PLAINTEXT"
    ssl = "SSL"
    sasl_plaintext = "SASL_PLAINTEXT"
    sasl_ssl = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        return self in (Protocol.ssl, Protocol.sasl_ssl)

    @property
    def sasl(self) -> bool:
        return self in (Protocol.sasl_plaintext, Protocol.sasl_ssl)


class Mechanism(StrEnum):
    plain = "PLAIN"
    scram_sha_256 = "SCRAM-SHA-256"
    scram_sha_512 = "SCRAM-SHA-512"


def _as_servers(value: object) -> str:
    items = value if isinstance(value, list | tuple) else [value]
    servers = []
    for item in items:
        for server in (part.strip() for part in as_text(item).split(",")):
            found = _SERVER.fullmatch(server)
            if found is None or not 0 < int(found["port"]) < 65536:
                got = shown(item if isinstance(item, Substituted) else server)
                brackets = "; an IPv6 address stands in brackets" if server.count(":") > 1 else ""
                raise Wrong(f"expected servers such as host:9092, separated by commas, got {got}{brackets}")
            servers.append(server)
    if not servers:
        raise Wrong("expected servers such as host:9092, got an empty list")
    return ",".join(servers)


Servers = Annotated[str, BeforeValidator(_as_servers), WithJsonSchema(LIST_OR_TEXT)]


class Security(Section):
    """Encryption and authentication of clients."""

    protocol: Annotated[Protocol, one_of(Protocol)]
    """`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`, as the brokers' listener has it."""
    mechanism: Annotated[Mechanism, one_of(Mechanism)] | None = None
    """How a SASL user logs in: `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`. Needed with SASL, refused without."""
    username: Text | None = None
    """The SASL user. Needed with SASL, refused without."""
    password: Secret | None = None
    """The SASL user's password. Needed with SASL, refused without."""
    ca_file: LocalPath | None = None
    """PEM file of the authorities that sign the brokers' certificates. Default: the system's."""
    cert_file: LocalPath | None = None
    """PEM file of our own certificate and its chain, for mutual TLS. Needs `key_file`."""
    key_file: LocalPath | None = None
    """PEM file of its private key, as unencrypted PKCS#8 (`openssl pkcs8 -topk8 -nocrypt` makes one). Needs
    `cert_file`."""


class Registry(Section):
    """The schema registry, for avro with Confluent framing."""

    url: HttpUrl
    """Address of the registry. If it has several APIs: the address of the Confluent one."""
    username: Text | None = None
    """User for HTTP basic authentication. Needs `password`."""
    password: Secret | None = None
    """That user's password. Needs `username`."""
    ca_file: LocalPath | None = None
    """PEM file of the authorities that sign the registry's certificate. Default: the system's."""
    cert_file: LocalPath | None = None
    """PEM file of our own certificate, for mutual TLS. Needs `key_file`."""
    key_file: LocalPath | None = None
    """PEM file of its private key. Needs `cert_file`."""


class KafkaSection(Section):
    """The brokers, the schema registry, and settings for the clients."""

    bootstrap_servers: Servers
    """The brokers to contact first, as `host:port`, separated by commas or as a list."""
    security: Security | None = None
    """Encryption and login. Default: plaintext, no login."""
    registry: Registry | None = None
    """The schema registry, for `format: avro` with Confluent framing."""
    client: ClientSettings = Field(default_factory=ClientSettings)
    """Settings for the Kafka clients, by the names of Apache Kafka's Java clients."""
