"""The top-level members of JSON events in columns: found in all bytes at once, or by Python's parser where names or
values are written unusually."""

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.events.one_by_one import members_of_one
from enrich.stage.events.places import Marks, Positions, pieces_of, top_level


@dataclass(frozen=True)
class Members:
    """All members of some events, in the order in which they stand."""

    rows: Positions
    names: pa.BinaryArray
    """As they are meant: without escapes."""
    values: pa.BinaryArray
    """As they stand in the events."""

    def joined(self, other: "Members") -> "Members":
        """With those of other events."""
        rows = np.concatenate([self.rows, other.rows])
        order = np.argsort(rows, kind="stable")
        names, values = ([self.names, other.names], [self.values, other.values])
        chosen = pa.array(order)
        return Members(rows[order], pa.concat_arrays(names).take(chosen), pa.concat_arrays(values).take(chosen))


def members_of(events: pa.BinaryArray) -> Members:
    """Of usable events."""
    if not len(events):
        return _members([], [], [])
    marks = Marks.of(events)
    found = top_level(marks)
    is_odd = marks.with_escaped_names()
    is_odd[found.rows[~found.is_known]] = True
    found = found.kept(~is_odd[found.rows])
    plain = Members(
        found.rows,
        _cut(marks, marks.opens[found.names] + 1, marks.closes[found.names]),
        _cut(marks, found.begins, found.ends),
    )
    return plain if not is_odd.any() else plain.joined(_slowly(events, np.flatnonzero(is_odd)))


def _cut(marks: Marks, begins: Positions, ends: Positions) -> pa.BinaryArray:
    """What is between these positions, which ascend."""
    return pieces_of(marks.content, begins, ends).take(pa.array(np.arange(1, 2 * len(begins) + 1, 2)))


def _slowly(events: pa.BinaryArray, rows: Positions) -> Members:
    found_rows: list[int] = []
    names: list[bytes] = []
    values: list[bytes] = []
    for row in rows.tolist():
        event = events[row].as_py().decode()
        for name, begin, end in members_of_one(event):
            found_rows.append(row)
            # A lone surrogate, which JSON can express and UTF-8 cannot, becomes a question mark.
            names.append(name.encode(errors="replace"))
            values.append(event[begin:end].encode())
    return _members(found_rows, names, values)


def _members(rows: list[int], names: list[bytes], values: list[bytes]) -> Members:
    return Members(np.array(rows, np.int64), pa.array(names, pa.binary()), pa.array(values, pa.binary()))


def contents_of(values: pa.BinaryArray) -> pa.BinaryArray:
    """What JSON values mean: of texts what they contain, of others what is written; null of `null`."""
    is_text = pc.equal(pc.binary_slice(values, 0, 1), b'"')
    contents = pc.if_else(is_text, pc.binary_slice(values, 1, -1), values)
    contents = pc.if_else(pc.equal(values, b"null"), pa.scalar(None, pa.binary()), contents)
    has_escape = pc.fill_null(pc.and_(is_text, pc.match_substring(values, b"\\")), False)
    if not pc.any(has_escape).as_py():
        return contents
    texts = [json.loads(value).encode(errors="replace") for value in values.filter(has_escape).to_pylist()]
    return pc.replace_with_mask(contents, has_escape, pa.array(texts, pa.binary()))
