"""Replaces the values of members of events in columns; all other bytes stay as they are."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.joining import joined
from enrich.stage.events.one_by_one import members_of_one
from enrich.stage.events.places import Marks, Positions, Values, found
from enrich.stage.events.splicing import spliced
from enrich.stage.events.text import name_text
from enrich.stage.task.fate import Mask


def replaced(events: pa.BinaryArray, wanted: Mask, members: Mapping[str, pa.BinaryArray]) -> pa.BinaryArray:
    """The wanted events, which must be usable, with these JSON texts as the values of their top-level members. The
    others are null.

    A member that is missing is added at the end. One that occurs several times is replaced everywhere: readers differ
    in which of them counts.
    """
    if wanted.all():
        return _replaced(events, dict(members))
    rows = np.flatnonzero(wanted)
    chosen = pa.array(rows)
    done = _replaced(events.take(chosen), {name: texts.take(chosen) for name, texts in members.items()})
    sources = np.zeros(len(events), np.int64)
    sources[rows] = np.arange(len(rows))
    return done.take(pa.array(sources, mask=~wanted))


def _replaced(events: pa.BinaryArray, members: dict[str, pa.BinaryArray]) -> pa.BinaryArray:
    if not members or not len(events):
        return events
    marks = Marks.of(events)
    values = [found(marks, name.encode()) for name in members]
    is_odd = marks.with_escaped_names()
    for each in values:
        is_odd[each.rows[~each.is_known]] = True
    missing = [~is_odd & ~_has_row(each.rows, len(events)) for each in values]
    made = _with_values(events, marks, [each.kept(~is_odd[each.rows]) for each in values], list(members.values()))
    made = _with_missing(made, missing, members)
    if is_odd.any():
        made = pc.replace_with_mask(made, pa.array(is_odd), _slowly(events, np.flatnonzero(is_odd), members))
    return made


def _with_values(
    events: pa.BinaryArray, marks: Marks, values: list[Values], texts: list[pa.BinaryArray]
) -> pa.BinaryArray:
    """The events cut into what is kept and what is replaced, alternately, and joined again."""
    begins = np.concatenate([each.begins for each in values])
    if not len(begins):
        return events
    order = np.argsort(begins)
    rows = np.concatenate([each.rows for each in values])
    sources = np.concatenate([each.rows + len(events) * member for member, each in enumerate(values)])[order]
    ends = np.concatenate([each.ends for each in values])[order]
    cuts = np.concatenate([marks.starts, begins[order], ends, [len(marks.content)]])
    cuts.sort(kind="stable")
    pieces = pa.Array.from_buffers(
        pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts.astype(np.int32)), pa.py_buffer(marks.content)]
    )
    is_value = np.zeros(len(pieces), np.bool_)
    is_value[np.searchsorted(cuts, begins[order], "right") - 1] = True
    new = pa.concat_arrays([each.cast(pa.binary()) for each in texts]).take(pa.array(sources))
    pieces = pc.replace_with_mask(pieces, pa.array(is_value), new)
    counts = 1 + 2 * np.bincount(rows, minlength=len(events))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(offsets, pieces), b"")


def _with_missing(events: pa.BinaryArray, missing: list[Mask], members: dict[str, pa.BinaryArray]) -> pa.BinaryArray:
    lacks = np.logical_or.reduce(missing)
    if not lacks.any():
        return events
    chosen, nothing = pa.array(lacks), pa.scalar(None, pa.binary())
    parts = []
    for (name, texts), is_missing in zip(members.items(), missing, strict=True):
        text = pc.if_else(pa.array(is_missing[lacks]), texts.filter(chosen), nothing)
        parts.append(joined(_bytes(name_text(name) + b":"), text))
    added = pc.binary_join_element_wise(*parts, _bytes(b","), null_handling="skip")
    some = events.filter(chosen)
    return pc.replace_with_mask(events, chosen, spliced(some, np.ones(len(some), np.bool_), added))


def _has_row(rows: Positions, count: int) -> Mask:
    has_row = np.zeros(count, np.bool_)
    has_row[rows] = True
    return has_row


def _slowly(events: pa.BinaryArray, rows: Positions, members: dict[str, pa.BinaryArray]) -> pa.BinaryArray:
    """Like `_replaced`, for some of the events: Python's parser tells where names and values are."""
    made = []
    for row in rows.tolist():
        texts = {name: values[row].as_py().decode() for name, values in members.items()}
        made.append(_one_replaced(events[row].as_py().decode(), texts).encode())
    return pa.array(made, pa.binary())


def _one_replaced(event: str, texts: dict[str, str]) -> str:
    kept, missing, at = [], dict(texts), 0
    for name, begin, end in members_of_one(event):
        if name in texts:
            kept += [event[at:begin], texts[name]]
            missing.pop(name, None)
            at = end
    return "".join(kept) + event[at:] if not missing else _spliced(["".join(kept), event[at:]], missing)


def _spliced(event: list[str], missing: dict[str, str]) -> str:
    (text,) = spliced(
        pa.array(["".join(event).encode()], pa.binary()),
        np.ones(1, np.bool_),
        pa.array([b",".join(name_text(name) + b":" + value.encode() for name, value in missing.items())], pa.binary()),
    ).to_pylist()
    return str(text.decode())


def _bytes(text: bytes) -> pa.Scalar:
    return pa.scalar(text, pa.binary())
