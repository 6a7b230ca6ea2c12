"""The section `expel`: each route delivers the events of a topic to an HTTP endpoint."""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, WithJsonSchema

from enrich.config.messages.words import Wrong, shown
from enrich.config.types.fields import (
    Between,
    Flag,
    HttpUrl,
    LocalPath,
    Secret,
    Section,
    SigningSecrets,
    Text,
    Topic,
    as_integer,
    one_of,
)
from enrich.config.types.quantities import Duration, DurationList, Size, duration_text

_RATE = r"^[1-9][0-9]{0,8}/(s|m|h)$"
_RATE_S = {"s": 1, "m": 60, "h": 3600}


class HttpFormat(StrEnum):
    ndjson = "ndjson"
    json = "json"
    single = "single"


class Order(StrEnum):
    none = "none"
    key = "key"


def _as_rate(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(_RATE, value, re.ASCII):
        return str(value)
    raise Wrong(f"expected a rate such as 1000/s or 60/m, got {shown(value)}")


Rate = Annotated[str, BeforeValidator(_as_rate), WithJsonSchema({"type": "string", "pattern": _RATE})]


def per_second(rate: str) -> float:
    count, _, unit = rate.partition("/")
    return int(count) / _RATE_S[unit]


def _as_statuses(value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise Wrong(f"expected a list of statuses such as [408, 423], got {shown(value)}")
    numbers = tuple(as_integer(item) for item in value)
    wrong = next((number for number in numbers if not 400 <= number <= 499), None)
    if wrong is not None:
        raise Wrong(f"expected statuses from 400 to 499, got {wrong}")
    return numbers


Statuses = Annotated[
    tuple[int, ...],
    BeforeValidator(_as_statuses),
    WithJsonSchema({"type": "array", "items": {"type": "integer", "minimum": 400, "maximum": 499}}),
]


class HttpEndpoint(Section):
    """Where requests are sent to, and how they look."""

    url: HttpUrl
    """Address that batches are posted to."""
    format: Annotated[HttpFormat, one_of(HttpFormat)] = HttpFormat.ndjson
    """The body of a request: `ndjson` (an event a line), `json` (an array) or `single` (one event as it is)."""
    content_type: Text | None = None
    """The header `Content-Type`. Default: `application/x-ndjson` or `application/json`, by the format."""
    gzip: Flag = False
    """Compress the bodies."""
    timeout: Duration = timedelta(seconds=10)
    """How long a request may take, from connecting to the last byte of the answer; 100ms to 5m."""
    secret: SigningSecrets | None = None
    """Signs requests with Standard Webhooks headers: a secret such as `whsec_...`. A list signs with each, so that
    keys can change. Default: not signed."""
    token: Secret | None = None
    """Sent as `Authorization: Bearer TOKEN`."""
    ca_file: LocalPath | None = None
    """PEM file of the authorities that sign the endpoint's certificate. Default: the system's."""
    cert_file: LocalPath | None = None
    """PEM file of our own certificate, for mutual TLS. Needs `key_file`."""
    key_file: LocalPath | None = None
    """PEM file of its private key. Needs `cert_file`."""
    allow_private: Flag = False
    """Whether the address may be a private, local or link-local one."""


class Endpoint(Section):
    """The endpoint."""

    http: HttpEndpoint
    """An HTTP server."""


class Batch(Section):
    """When a batch of events is full."""

    events: Annotated[int, Between(1, 10_000)] = 500
    """Most events in a request."""
    bytes: Size = 2**20
    """Most bytes in a request, before compression. A larger event goes alone."""
    wait: Duration = timedelta(milliseconds=20)
    """How long the first event of a batch waits for others; at most 1m."""


class Local(Section):
    """Retries within the program, before an event goes to a retry topic."""

    tries: Annotated[int, Between(1, 20)] = 3
    """How often a batch is sent, the first time included."""
    first: Duration = timedelta(milliseconds=50)
    """Pause before the second time; each further one is longer."""
    longest: Duration = timedelta(seconds=1)
    """The longest pause."""
    budget: Duration = timedelta(seconds=10)
    """How long a batch is tried here altogether."""


class Window(Section):
    """What may be read and not yet delivered. What would hold it for long is moved to a retry topic."""

    events: Annotated[int, Between(1, 1_000_000)] = 20_000
    """Most events."""
    bytes: Size = 64 * 2**20
    """Most bytes, keys and headers included."""


class Expel(Section):
    """A route from a topic to an endpoint."""

    derived: ClassVar = {"dlq": "topic"}

    topic: Topic
    """The topic whose events are delivered."""
    to: Endpoint
    """The endpoint that they are delivered to."""
    batch: Batch = Field(default_factory=Batch)
    """When a batch of events is full."""
    parallel: Annotated[int, Between(1, 1000)] = 16
    """Most requests under way at once. A slow endpoint gets fewer."""
    order: Annotated[Order, one_of(Order)] = Order.none
    """`key`: the events of a key are delivered in their order, also if some are retried. `none`: in any order."""
    rate: Rate | None = None
    """Most requests in a time, such as `1000/s`. Default: no limit."""
    window: Window = Field(default_factory=Window)
    """What may be read and not yet delivered."""
    local: Local = Field(default_factory=Local)
    """Retries within the program."""
    retry_statuses: Statuses = ()
    """Statuses from 400 to 499 that are retried like 429 and 5xx, such as 408."""
    split: Statuses = (400, 413, 422)
    """Statuses after which a batch is halved to find the event that the endpoint refuses; `[]`: none."""
    retries: DurationList = (timedelta(seconds=30), timedelta(minutes=5), timedelta(hours=1))
    """Pauses after which an event that was not delivered is tried again, in this order. Each has a topic."""
    max_age: Duration = timedelta(days=3)
    """An event that is older is not tried any more and becomes a dead letter."""
    dlq: Topic
    """The topic for events that are not delivered; created if it does not exist. Default: `<pipeline>.<route>.dlq`."""


def retry_in_topics(pipeline: str, route: str, pauses: tuple[timedelta, ...]) -> list[tuple[str, timedelta]]:
    """For each pause, in the order of the configuration, the topic in which events wait for so long."""
    return [(f"{retry_in_prefix(pipeline, route)}{duration_text(pause)}", pause) for pause in pauses]


def retry_in_prefix(pipeline: str, route: str) -> str:
    """Before the pause, in the names of these topics."""
    return f"{pipeline}.{route}.retry_in."


def holds_topic(pipeline: str) -> str:
    """Where the routes stand that are on hold."""
    return f"{pipeline}.holds"


def retry_out_topic(pipeline: str, route: str) -> str:
    """The topic from which the route reads again what has waited."""
    return f"{pipeline}.{route}.retry_out"
