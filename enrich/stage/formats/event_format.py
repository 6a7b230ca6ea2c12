"""What every format of events offers the plan: fields for expressions, whether an event can be used, and what of it is
written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from enrich.kafka.identity import EVENT_TIME, ORIGIN, PASSED_ON, RELEASE
from enrich.stage.steps.leaving.headers import ORIGIN_FORM, OVERHEAD
from enrich.stage.steps.leaving.why import Why
from enrich.stage.steps.step import Step


@dataclass(frozen=True)
class Kafka:
    """The Kafka columns of the original event, named so that they do not clash with an event's fields."""

    key: str = "_kafka_key"
    value: str = "_kafka_value"
    topic: str = "_kafka_topic"
    partition: str = "_kafka_partition"
    offset: str = "_kafka_offset"
    timestamp: str = "_kafka_timestamp"
    headers: str = "_kafka_headers"

    def of(self, source: DataFrame) -> DataFrame:
        """The columns of Spark's Kafka source, renamed."""
        return source.select(*(sql.col(name).alias(own) for name, own in vars(self).items()))

    @property
    def columns(self) -> Sequence[str]:
        return tuple(vars(self).values())


KAFKA = Kafka()
HEADERS_TYPE = "array<struct<key:string,value:binary>>"


def bytes_beside_value() -> Column:
    """The size of a record with the event's key and headers, without its value.

    It must not use a lambda: Spark generates no code for lambdas and would copy all rows once more to evaluate one.
    """
    headers = sql.col(KAFKA.headers)
    texts = (headers["key"], headers["value"].cast("array<string>"))
    sizes = sum((sql.octet_length(sql.array_join(text, "")) for text in texts), start=sql.size(headers) * 10)
    return sql.coalesce(sql.length(KAFKA.key), sql.lit(0)) + sql.coalesce(sizes, sql.lit(0)) + OVERHEAD


def place() -> Column:
    """The event's own place: topic/partition/offset."""
    return sql.concat_ws(
        "/", KAFKA.topic, sql.col(KAFKA.partition).cast("string"), sql.col(KAFKA.offset).cast("string")
    )


def with_identity(time_ms: Column, release: int = 0) -> Column:
    """The event's headers with its origin, which is its own place, and its time, unless it brings them from an earlier
    node; and the release, unless it is 0 or the event brings a higher one. The origin comes first, as workers do it. No
    lambda, as in `bytes_beside_value`."""
    headers = sql.col(KAFKA.headers)
    none = sql.array().cast(HEADERS_TYPE)
    values = {ORIGIN: place(), EVENT_TIME: time_ms.cast("string")}
    java_form = ORIGIN_FORM.replace("?P<", "?<")
    brings = {
        ORIGIN: header(ORIGIN).cast("string").rlike(java_form),
        EVENT_TIME: sql.array_contains(headers["key"], EVENT_TIME),
    }
    if release:
        values[RELEASE] = sql.lit(str(release))
        brings[RELEASE] = brought_release() >= release
    own = {
        name: sql.struct(sql.lit(name).alias("key"), value.cast("binary").alias("value"))
        for name, value in values.items()
    }
    first, *others = (sql.when(brings[name], none).otherwise(sql.array(one)) for name, one in own.items())
    return sql.when(headers.isNull(), sql.array(*own.values())).otherwise(sql.concat(first, headers, *others))


def only_ours() -> Column:
    """The event's headers without those that nobody has classified."""
    return sql.filter(sql.col(KAFKA.headers), lambda each: each["key"].isin(*PASSED_ON))


def brought_release() -> Column:
    """The release that made the event; null if it has none."""
    return header(RELEASE).cast("string").try_cast("bigint")


def header(name: str) -> Column:
    """The value of the event's first header of this name; null if it has none. No lambda, for the same reason."""
    headers = sql.col(KAFKA.headers)
    at = sql.array_position(headers["key"], name)
    return sql.get(headers["value"], (at - 1).cast("int"))


def missing() -> Column:
    """The start of `EventFormat.reason`: what is the same in every format."""
    value = sql.col(KAFKA.value)
    return sql.when(value.isNull(), "the event has no value").when(sql.length(value) == 0, "the event is empty")


class EventFormat(Protocol):
    """One encoding of events."""

    @property
    def schema(self) -> StructType:
        """The fields that expressions can name."""

    @property
    def written_fields(self) -> Sequence[str] | None:
        """The fields that become the members of an output; None if the event's own bytes become the output."""

    def read(self, fields: Sequence[str]) -> Sequence[Step]:
        """They make `USABLE` and the named fields, which are null if the event is not usable."""

    def reason(self) -> Column:
        """Why an event is not usable. It must not quote the event's content."""

    @property
    def why(self) -> Why:
        """The same, for workers."""
