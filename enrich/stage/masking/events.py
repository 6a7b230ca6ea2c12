"""Whole JSON events with masked members."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.joining import joined
from enrich.config import Masking, TopicMasks
from enrich.stage.events.scalar_text import quoted
from enrich.stage.masking.members import contents_of, members_of
from enrich.stage.masking.values import masked
from enrich.stage.task.fate import Mask

UNREADABLE = b"[masked]"
"""In place of what is no JSON object, and has no columns that could be told apart. It is none either."""
_NULL = b"null"


def masked_events(events: pa.BinaryArray, usable: Mask, masks: TopicMasks, key: bytes) -> pa.BinaryArray:
    """`usable`: which are JSON objects. Events that are null stay null, for they say that something is deleted."""
    rows = np.flatnonzero(usable)
    if len(rows) == len(events):
        return _masked(events, masks, key)
    unreadable = pc.if_else(events.is_valid(), pa.scalar(UNREADABLE), pa.scalar(None, pa.binary()))
    chosen = pa.array(usable)
    return pc.replace_with_mask(unreadable, chosen, _masked(events.filter(chosen), masks, key))


def _masked(events: pa.BinaryArray, masks: TopicMasks, key: bytes) -> pa.BinaryArray:
    members = members_of(events)
    names = members.names.dictionary_encode()
    maskings = [masks.of(name.decode()).masking for name in names.dictionary.to_pylist()]
    places = {one: number for number, one in enumerate(Masking)}
    of_members = np.array([places[one] for one in maskings], np.int8)[names.indices.to_numpy()]
    values = members.values
    for masking, number in places.items():
        has_mask = of_members == number
        if masking in (Masking.show, Masking.withhold) or not has_mask.any():
            continue
        chosen = pa.array(has_mask)
        values = pc.replace_with_mask(values, chosen, _texts(values.filter(chosen), masking, key))
    kept = of_members != places[Masking.withhold]
    texts = joined(_named(names), pa.scalar(b":"), values).filter(pa.array(kept))
    counts = np.bincount(members.rows[kept], minlength=len(events))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    inside = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), b",")
    return joined(pa.scalar(b"{"), inside, pa.scalar(b"}"))


def _named(names: pa.DictionaryArray) -> pa.BinaryArray:
    return quoted(names.dictionary).take(names.indices)


def _texts(values: pa.BinaryArray, masking: Masking, key: bytes) -> pa.BinaryArray:
    """JSON texts in place of JSON values. Null is always null: it says nothing about anybody."""
    if masking is Masking.null:
        return pa.repeat(pa.scalar(_NULL), len(values))
    return pc.fill_null(quoted(masked(contents_of(values), masking, key)), _NULL)
