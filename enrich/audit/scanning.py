"""Reads the topics of events with Spark: which marks each origin has, minute by minute."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs
from pyspark.sql.types import BinaryType

from enrich.kafka.identity import EVENT_TIME, ORIGIN
from enrich.stage.formats.event_format import KAFKA, header
from enrich.tally import Origins
from enrich.tally.origins import Place, bitmap_of
from enrich.verdict.minute import AHEAD, OLDEST

MOST_MARKS = 62
"""They are the bits of a number."""
_ORIGIN = r"^([A-Za-z0-9._-]{1,249})/([0-9]{1,9})/([0-9]{1,18})$"
Offsets = Mapping[int, int]


@dataclass(frozen=True)
class Part:
    """What is read of a topic."""

    topic: str
    starts: Offsets
    ends: Offsets
    marks: "Sequence[Bit]"
    is_entry: bool
    """Whether events come in there: their minute is what this record says."""
    time: "EventTime | None" = None
    """Of an entry: when an event without the header happened."""


@dataclass(frozen=True)
class Bit:
    """Which records of a topic set it."""

    number: int
    since: Offsets | None = None
    """Those from these offsets on; None: all do."""
    sent_by: str | None = None
    """Dead letters of this sender only, and those that name none."""


@dataclass(frozen=True)
class EventTime:
    """An expression over the fields of events in JSON."""

    schema: str
    text: str


def minutes(
    spark: SparkSession, options: Mapping[str, str], parts: Sequence[Part], first: int, last: int
) -> Iterator[tuple[int, Mapping[int, Origins]]]:
    """Of each minute from `first` to `last`, in order, the origins that came in by the marks that they have."""
    records = reduce(DataFrame.unionAll, (_marked(spark, options, part) for part in parts))
    origins = records.groupBy("topic", "partition", "offset").agg(
        sql.bit_or("marks").alias("marks"), sql.min("minute").alias("minute")
    )
    of_day = origins.where(sql.col("minute").between(first, last))
    pack = arrow_udf(_packed, BinaryType())  # one value a group: its types say so
    packed = of_day.groupBy("minute", "topic", "partition", "marks").agg(pack("offset").alias("offsets"))
    minute: int | None = None
    found: dict[int, dict[Place, BitMap64]] = {}
    for row in packed.orderBy("minute").toLocalIterator():
        if minute is not None and row.minute != minute:
            yield minute, {marks: Origins(places) for marks, places in found.items()}
            found = {}
        minute = row.minute
        found.setdefault(row.marks, {})[row.topic, row.partition] = BitMap64.deserialize(bytes(row.offsets))
    if minute is not None:
        yield minute, {marks: Origins(places) for marks, places in found.items()}


def _marked(spark: SparkSession, options: Mapping[str, str], part: Part) -> DataFrame:
    """A row a record: its origin, its marks, and, where it came in, its minute."""
    reader = spark.read.format("kafka").options(**options)
    reader = reader.option("subscribe", part.topic).option("includeHeaders", "true")
    for name, offsets in (("startingOffsets", part.starts), ("endingOffsets", part.ends)):
        reader = reader.option(name, json.dumps({part.topic: {str(p): offset for p, offset in offsets.items()}}))
    records = KAFKA.of(reader.load())
    named = header(ORIGIN).cast("string")
    is_named = sql.coalesce(named.rlike(_ORIGIN), sql.lit(False))
    beside = {key: header(f"enrich.{key}").cast("string") for key in ("topic", "partition", "offset")}
    is_letter = sql.coalesce(beside["topic"].isNotNull() & beside["offset"].isNotNull(), sql.lit(False))

    def place(group: int, key: str, own: str, kind: str) -> Column:
        # A dead letter is of the place that it names, any other record of its own.
        letter = sql.lit(False) if part.is_entry else is_letter
        theirs = sql.when(letter, beside[key].try_cast(kind)).otherwise(sql.col(own))
        return sql.when(is_named, sql.regexp_extract(named, _ORIGIN, group).try_cast(kind)).otherwise(theirs).alias(key)

    came_ms = sql.unix_millis(KAFKA.timestamp)
    times_ms = [header(EVENT_TIME).cast("string").try_cast("bigint")]
    if part.time is not None:
        event = sql.from_json(sql.col(KAFKA.value).cast("string"), part.time.schema).alias("_event")
        records = records.select("*", event).select(*KAFKA.columns, "_event.*")
        times_ms.append(sql.unix_millis(sql.expr(part.time.text)))
    time_ms = sql.coalesce(*times_ms, came_ms)
    minute, came = sql.floor(time_ms / 60_000), sql.floor(came_ms / 60_000)
    is_believed = minute.between(came - OLDEST, came + AHEAD)
    own_minute = sql.when(is_believed, minute).otherwise(came) if part.is_entry else sql.lit(None)
    return records.select(
        place(1, "topic", KAFKA.topic, "string"),
        place(2, "partition", KAFKA.partition, "int"),
        place(3, "offset", KAFKA.offset, "bigint"),
        own_minute.cast("bigint").alias("minute"),
        _marks(part).alias("marks"),
    )


def _marks(part: Part) -> Column:
    found = sql.lit(0).cast("bigint")
    for bit in part.marks:
        sets = sql.lit(True)
        if bit.since is not None:
            pairs = [sql.lit(number) for pair in bit.since.items() for number in pair]
            floor = sql.coalesce(sql.create_map(*pairs)[sql.col(KAFKA.partition)], sql.lit(0)) if pairs else sql.lit(0)
            sets = sql.col(KAFKA.offset) >= floor
        if bit.sent_by is not None:
            # A letter's key: topic/partition/offset/sender, and perhaps the topic's id.
            sender = sql.split_part(sql.col(KAFKA.key).cast("string"), sql.lit("/"), sql.lit(4))
            sets = sets & sql.coalesce(sender, sql.lit("")).isin("", bit.sent_by)
        found = found.bitwiseOR(sql.when(sets, bit.number).otherwise(0).cast("bigint"))
    return found


def _packed(offsets: pa.Array) -> bytes:
    """As one set."""
    some = bitmap_of(offsets.to_numpy())
    some.run_optimize()
    return bytes(some.serialize())
