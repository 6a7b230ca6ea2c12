"""Masks events before anything else sees them: what follows, in workers and in the JVM, has no other value or key."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.config import Classification, Masking, TopicMasks
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

        def mask(columns: Columns) -> Columns:
            usable, _ = reader.read(columns[VALUE])
            made = []
            for topic, chosen in _by_topic(columns[TOPIC]):
                masks = of_topic(topic)
                values = masked_events(columns[VALUE].filter(chosen), usable[chosen], masks, key)
                made.append((chosen, {VALUE: values, KEY: masked_keys(columns[KEY].filter(chosen), masks, key)}))
            return _together(columns, made)

        return mask


def masked_keys(keys: pa.BinaryArray, masks: TopicMasks, key: bytes) -> pa.BinaryArray:
    from enrich.stage.masking.values import masked

    masking = masks.of_key.masking
    if masking is Masking.show:
        return keys
    if masking is Masking.withhold:
        return pa.nulls(len(keys), pa.binary())
    return masked(keys, Masking.hmac, key).cast(pa.binary())


def _by_topic(topics: pa.Array) -> Iterator[tuple[str, np.ndarray]]:
    """Each topic with its events. Most tasks read one."""
    encoded = topics.dictionary_encode()
    indices = encoded.indices.to_numpy()
    for number, topic in enumerate(encoded.dictionary.to_pylist()):
        yield topic, indices == number


def _together(columns: Columns, made: Sequence[tuple[np.ndarray, Columns]]) -> Columns:
    if len(made) == 1:
        return made[0][1]
    found = {}
    for name in (VALUE, KEY):
        array = pa.nulls(len(columns[name]), pa.binary())
        for chosen, each in made:
            array = pc.replace_with_mask(array, pa.array(chosen), each[name])
        found[name] = array
    return found
