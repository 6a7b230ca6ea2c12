"""Masks events before anything else sees them: what follows, in workers and in the JVM, has no other value or key."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from enrich.config import Classification, Masking, TopicMasks
from enrich.stage.steps.by_topic import each_topic
from enrich.stage.steps.step import Columns, Work
from enrich.stage.task.columns import KEY, TOPIC, VALUE
from enrich.stage.task.pin import Pin

_TOPICS_AT_HAND = 10_000


@dataclass(frozen=True)
class Secrets:
    """The masks with their key. It must not be written to a file."""

    classes: Classification
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class MaskEvents:
    """Of events in JSON."""

    secrets: Secrets
    needs: Collection[str] = (VALUE, KEY, TOPIC)

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {VALUE: pa.binary(), KEY: pa.binary()}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        from enrich.stage.events.fields import EventFields
        from enrich.stage.masking.events import masked_events

        of_topic = lru_cache(_TOPICS_AT_HAND)(self.secrets.classes.of)
        reader, key = EventFields(pa.schema([])), self.secrets.key

        def values_of(topic: str, some: Sequence[pa.Array]) -> pa.BinaryArray:
            values, usable = some
            return masked_events(values, usable.to_numpy(zero_copy_only=False), of_topic(topic), key)

        def keys_of(topic: str, some: Sequence[pa.Array]) -> pa.BinaryArray:
            return masked_keys(some[0], of_topic(topic), key)

        def mask(columns: Columns) -> Columns:
            topics, values = columns[TOPIC], columns[VALUE]
            usable, _ = reader.read(values)
            return {
                VALUE: each_topic(topics, [values, pa.array(usable)], values_of),
                KEY: each_topic(topics, [columns[KEY]], keys_of),
            }

        return mask


def masked_keys(keys: pa.BinaryArray, masks: TopicMasks, key: bytes) -> pa.BinaryArray:
    from enrich.stage.masking.values import masked

    masking = masks.of_key.masking
    if masking is Masking.show:
        return keys
    if masking is Masking.withhold:
        return pa.nulls(len(keys), pa.binary())
    return masked(keys, Masking.hmac, key).cast(pa.binary())
