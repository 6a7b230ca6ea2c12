"""Events that cannot be processed, in the JVM: they become dead letters like those that
`enrich.kafka.writing.dead_letters` makes in Python, with a longer key, or fail a stage that has no DLQ."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sql

from enrich.kafka.writing.dead_letters import LARGEST_VALUE
from enrich.stage.formats.event_format import HEADERS_TYPE, KAFKA, bytes_beside_value, place
from enrich.stage.plan.leaving.rows import Row
from enrich.stage.steps.leaving.records import LONGEST_KEY, OWN_BYTES
from enrich.stage.task.failures import MARK


@dataclass(frozen=True)
class Sender:
    """The stage that sends dead letters, as part of their keys: a compacted DLQ keeps only the newest record of a key,
    so another stage, or another topic of the same name, needs keys of its own."""

    pipeline: str
    stage: str
    source_ids: Mapping[str, str]
    """The ids of the topics of events, as far as they are part of the keys."""

    @property
    def name(self) -> str:
        return f"{self.pipeline}.{self.stage}"

    @property
    def names(self) -> Sequence[Column]:
        """The parts of a key that name the sender."""
        stage = sql.lit(self.name)
        if not self.source_ids:
            return [stage]
        pairs = [sql.lit(text) for each in self.source_ids.items() for text in each]
        return [stage, sql.create_map(*pairs)[sql.col(KAFKA.topic)]]


def dead_letter(
    wanted: Column, topic: str, sender: Sender, reason: Column, decided: Mapping[str, Column], largest: int
) -> Row:
    """A record for the DLQ. Its key is the event's topic, partition and offset, and the sender. It is never larger than
    `largest`: a letter that the brokers refuse would fail the stage at each start. `decided`: headers that name what
    decided; null for what did not."""
    room = sql.lit(largest - OWN_BYTES) - bytes_beside_value()
    # If the event's headers leave no room for a value they are left out. The key is cut so that some room is left.
    theirs = sql.when(room > 0, sql.col(KAFKA.headers))
    count = sql.size(KAFKA.headers)
    left_out = sql.when((room <= 0) & (count > 0), count.cast("string"))
    room = sql.when(room > 0, room).otherwise(sql.lit(max(0, largest - OWN_BYTES - LONGEST_KEY)))
    return Row(
        wanted=wanted,
        topic=sql.lit(topic),
        key=sql.concat_ws("/", place(), *sender.names).cast("binary"),
        value=sql.substring(_value(), sql.lit(1), sql.least(room, sql.lit(LARGEST_VALUE))),
        headers=_headers(sender.stage, reason, decided, theirs, left_out),
    )


def failure_row(wanted: Column, reason: Column) -> Row:
    """A record that is never written: the first event that wants it fails the stage and reports why to the driver."""
    error = {
        "kind": "BadRecord",
        "what": "an event cannot be processed, and the stage has no DLQ: REASON",
        "where": "topic/partition/offset PLACE",
        "next_step": "give the stage a dlq",
    }
    before, between, after = (MARK + json.dumps(error)).replace("PLACE", "REASON").split("REASON")
    text = sql.concat(sql.lit(before), reason, sql.lit(between), place(), sql.lit(after))
    failure = sql.raise_error(text)
    return Row(wanted, failure.cast("string"), sql.col(KAFKA.key), sql.col(KAFKA.value), sql.col(KAFKA.headers))


def _value() -> Column:
    return sql.coalesce(KAFKA.value, sql.lit(bytearray()))


def _headers(stage: str, reason: Column, decided: Mapping[str, Column], theirs: Column, left_out: Column) -> Column:
    key_length = sql.length(KAFKA.key)
    values = {
        "enrich.reason": reason,
        "enrich.stage": sql.lit(stage),
        **decided,
        "enrich.topic": sql.col(KAFKA.topic),
        "enrich.partition": sql.col(KAFKA.partition).cast("string"),
        "enrich.offset": sql.col(KAFKA.offset).cast("string"),
        "enrich.key": sql.substring(KAFKA.key, 1, LONGEST_KEY),
        # Without these a replay would take the letter for whole.
        "enrich.key_length": sql.when(key_length > LONGEST_KEY, key_length.cast("string")),
        "enrich.headers_left_out": left_out,
        "enrich.length": sql.length(_value()).cast("string"),
        "enrich.sha256": sql.sha2(_value(), 256),
    }
    own = sql.array(
        *(sql.struct(sql.lit(name).alias("key"), value.cast("binary").alias("value")) for name, value in values.items())
    )
    theirs = sql.coalesce(theirs, sql.array().cast(HEADERS_TYPE))
    kept = sql.filter(theirs, lambda header: ~header["key"].isin(list(values)))
    return sql.concat(kept, sql.filter(own, lambda header: header["value"].isNotNull()))
