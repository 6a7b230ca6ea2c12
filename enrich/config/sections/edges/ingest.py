"""The section `ingest`: each entry takes events over HTTP and writes them to a topic."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from enrich.config.messages.words import Wrong
from enrich.config.types.columns import Columns
from enrich.config.types.encoding import Encoded, Format
from enrich.config.types.fields import (
    Between,
    ListenAddress,
    LocalPath,
    Matching,
    Name,
    Secrets,
    Section,
    Text,
    Topic,
    one_of,
)
from enrich.config.types.quantities import Duration, Size

UrlPath = Annotated[str, Matching(r"^/[A-Za-z0-9._~/-]{0,200}$", "a path such as /v1/plays")]


_RATES = ("tinyint", "smallint", "int", "bigint", "float", "double")
TENANT_COLUMNS: Mapping[str, Sequence[str]] = {
    "name": ("string",),
    "topics": ("array<string>", "string"),
    "events_per_s": _RATES,
    "bytes_per_s": _RATES,
}
"""The columns by which a row of a table says what its tenant may do, and the types that they may have."""


class Invalid(StrEnum):
    reject = "reject"
    dlq = "dlq"


class ServerTls(Section):
    """The certificate that senders see."""

    cert_file: LocalPath
    """PEM file of the certificate and its chain. A renewed file is read without a restart."""
    key_file: LocalPath
    """PEM file of its private key."""


class Ingest(Encoded):
    """A path to which senders post events."""

    derived: ClassVar = {"dlq": "topic"}

    listen: ListenAddress = "127.0.0.1:8080"
    """Where it listens. Entries with the same address are served by the same processes."""
    path: UrlPath
    """The path that events are posted to."""
    topic: Topic
    """The topic that the events are written to."""
    key: Text | None = None
    """The field whose value becomes the record's key; `device.id` is a field inside another. Default: no key."""
    event_time: Text | None = None
    """The field with the event's time: ms since 1970, or ISO 8601 with a zone. Becomes the header `enrich.event_time`.
    Default: none, and the record's timestamp stands for it."""
    tokens: Secrets | None = None
    """Tokens of senders, one of which each request must carry: `Authorization: Bearer TOKEN`. Without `tokens` and
    `tenants` everybody may send."""
    tenants: Name | None = None
    """A table whose rows are the senders, by the SHA-256 of their tokens (64 hexadecimal digits), with the columns
    `name`, `topics`, `events_per_s` and `bytes_per_s`, as far as it has them."""
    tls: ServerTls | None = None
    """Certificate and key, for https. Default: http."""
    processes: Annotated[int, Between(1, 64)] = 1
    """How many processes listen on the address."""
    max_body: Size = 2**20
    """Largest body of a request as it is sent."""
    max_inflated: Size = 8 * 2**20
    """Largest body after gzip, zstd or br is undone."""
    max_events: Annotated[int, Between(1, 100_000)] = 1000
    """Most events in a request."""
    in_flight: Size = 64 * 2**20
    """Bytes of bodies that a process holds at once. Beyond it reads no more, and then answers 429."""
    body_deadline: Duration = timedelta(seconds=5)
    """How long a sender may take to send a request."""
    deadline: Duration = timedelta(seconds=3)
    """How long the brokers may take to acknowledge a request; after that it is answered with 503."""
    invalid: Annotated[Invalid, one_of(Invalid)] = Invalid.reject
    """What happens to a request with bad events: `reject` (422, nothing is written) or `dlq` (the bad ones become dead
    letters, the others are written)."""
    dlq: Topic
    """With `invalid: dlq`, the topic for bad events. Default: `<pipeline>.<ingest>.dlq`."""

    @classmethod
    def schema_parser(cls, encoding: Format) -> Callable[[str], Columns]:
        raise Wrong(f"only for format: avro, and the format is {encoding}")
