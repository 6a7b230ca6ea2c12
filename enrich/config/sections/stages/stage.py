"""The section `stages`: each a spark-submit job that reads events, joins them with tables and writes them on."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from enrich.config.sections.stages.routes import DROP, Route
from enrich.config.sections.stages.settings import Settings
from enrich.config.sections.stages.source import Source
from enrich.config.types.fields import (
    Between,
    Expressions,
    Flag,
    HostAddress,
    Identifier,
    Location,
    Name,
    Names,
    Section,
    Text,
    Topic,
    one_of,
)


class OnMiss(StrEnum):
    null = "null"
    default = "default"
    drop = "drop"
    dlq = "dlq"
    wait = "wait"
    fail = "fail"


class AfterWait(StrEnum):
    null = "null"
    default = "default"
    drop = "drop"
    dlq = "dlq"
    fail = "fail"


class Profile(StrEnum):
    latency = "latency"
    throughput = "throughput"
    realtime = "realtime"


class Replay(StrEnum):
    latest = "latest"
    deterministic = "deterministic"


class SinkFormat(StrEnum):
    json = "json"


class Lookup(Section):
    """One join of the stage with a table."""

    table: Name
    """The table, by its name under `tables`."""
    key: Expressions
    """Spark SQL expression for the key; a list for a composite key; one address for a cidr table."""
    as_: Identifier = Field(alias="as")
    """Name of the object with the row's columns in the output. No other lookup and no field of the source may have
    this name, in upper or lower case; `_lineage` is taken."""
    select: Names | None = None
    """The columns to add. Default: all."""
    on_miss: Annotated[OnMiss, one_of(OnMiss)] = OnMiss.null
    """What happens to an event without a row: `null` (its object is null), `default` (it gets the values of
    `default`), `drop` (it is left out), `dlq` (it goes to the DLQ), `wait` (it waits for the table; topics and tables
    on demand) or `fail` (the stage ends)."""
    then: Annotated[AfterWait, one_of(AfterWait)] = AfterWait.null
    """With `on_miss: wait`: what happens to an event that still has no row: `null`, `default`, `drop`, `dlq` or
    `fail`."""
    default: Mapping[str, Any] | None = None
    """With `on_miss` or `then: default`: values of the selected columns; those not named are null."""
    as_of: Flag = False
    """Join the version that was valid at the event's time. Needs `event_time` and a table with `history`."""

    @property
    def last_resort(self) -> OnMiss:
        """What becomes of an event without a row once there is no more waiting."""
        return OnMiss(self.then.value) if self.on_miss == OnMiss.wait else self.on_miss

    @model_serializer(mode="wrap")
    def _what_applies(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        return {key: value for key, value in values.items() if key != "then" or self.on_miss == OnMiss.wait}


class Sink(Section):
    """The topic of enriched events."""

    topic: Topic
    """The topic that the enriched events go to."""
    format: Annotated[SinkFormat, one_of(SinkFormat)] = SinkFormat.json
    """Encoding of the output: `json`."""


class Writeback(Section):
    """A record for each event, for a topic of another table or for the sync service."""

    topic: Topic
    """The topic that the records go to."""
    key: Expressions | None = None
    """Spark SQL expression for the record's key, or a list of them for a composite key. Default: the event's own
    key."""
    value: Text
    """Spark SQL expression for the record's value: an object becomes JSON, null becomes a tombstone."""
    version: Text | None = None
    """The field that orders the versions of a key: a whole number, a date or a timestamp. Needed when `key` is given:
    the records of one key then come from several partitions, and offsets of different partitions have no order.
    Default: the event's offset."""


class Stage(Section):
    """One job: a source, its lookups, and where events go."""

    derived: ClassVar = {"checkpoint": "checkpoint"}

    source: Source
    """Where the events come from."""
    normalize: Mapping[Identifier, Text] = {}
    """Fields that get another value before anything else: Spark SQL expressions over the fields as they came."""
    lookups: tuple[Lookup, ...] = ()
    """The joins with tables; may be empty."""
    event_time: Text | None = None
    """Spark SQL expression for the time of the event: a timestamp, or a bigint of milliseconds since 1970."""
    sink: Sink | None = None
    """The topic of enriched events: the short form of one route that takes all."""
    routes: tuple[Route, ...] = ()
    """Instead of `sink`: the ways out. An event takes every route whose `when` holds."""
    otherwise: Text = DROP
    """What becomes of an event that takes no route: `drop`, `dlq`, or the name of a route without `when`, which then
    takes only these."""
    dlq: Topic | None = None
    """The topic for events that cannot be processed. Needed with `on_miss: dlq`."""
    lineage: Flag = False
    """Add `_lineage`: per lookup the table, partition, offset, time and status of what was joined."""
    writeback: Writeback | None = None
    """One more record for each event, for another topic."""
    profile: Annotated[Profile, one_of(Profile)] = Profile.latency
    """How the stage processes events: in small batches (`latency`), in large ones (`throughput`), or without batches
    (`realtime`)."""
    slots: Annotated[int, Between(1, 10_000)] | None = None
    """With `profile: realtime`: how many workers read, at most; 1 to 10,000. More than there are cores or partitions
    are not used. Default: one for each core."""
    settings: Settings | None = None
    """Settings that replace those of the profile, by Spark's names."""
    replay: Annotated[Replay, one_of(Replay)] = Replay.latest
    """`latest`, or `deterministic`: a repeated batch gives the same answers, byte for byte."""
    checkpoint: Location
    """Where the stage keeps its progress: a path or a URI. With `realtime` the consumer group has the offsets, and the
    checkpoint says that it must have them. Not inside `state_dir`, and not another stage's. Default:
    `./checkpoints/<pipeline>/<stage>`."""
    metrics_port: Annotated[int, Between(1, 65535)] | None = None
    """TCP port on which Prometheus reads the stage's metrics from its driver; 1 to 65535."""
    metrics_address: HostAddress = "127.0.0.1"
    """Local address on which that port listens."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The topics that events go to."""
        if self.sink is not None:
            return (self.sink.topic,)
        return tuple(dict.fromkeys(topic for route in self.routes for topic in route.all_topics))
