"""Where the values of members begin and end."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from enrich.stage.events.places.marks import WHITE_SPACE, Marks, Positions
from enrich.stage.task.fate import Mask

_ENDS_SCALAR = WHITE_SPACE.copy()
_ENDS_SCALAR[list(b",}")] = True


@dataclass(frozen=True)
class Values:
    """Members: where their values begin and end, the strings of `Marks` that are their names, and the rows of their
    events."""

    rows: Positions
    names: Positions
    begins: Positions
    ends: Positions
    is_known: Mask
    """False if the end was not found in time."""

    def kept(self, mask: Mask) -> "Values":
        return Values(self.rows[mask], self.names[mask], self.begins[mask], self.ends[mask], self.is_known[mask])


@dataclass(frozen=True)
class Spans:
    """For each event where one value begins and ends; an event without it has an empty one at 0."""

    begins: Positions
    ends: Positions

    @classmethod
    def last_of(cls, values: Values, count: int) -> "Spans":
        """Of values with the same name the last one counts."""
        begins, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
        begins[values.rows], ends[values.rows] = values.begins, values.ends
        return cls(begins, ends)

    @property
    def are_there(self) -> Mask:
        return self.ends > 0

    def texts(self, content: npt.NDArray[np.uint8]) -> pa.BinaryArray:
        """Null for events without the value."""
        rows = np.flatnonzero(self.are_there)
        pieces = pieces_of(content, self.begins[rows], self.ends[rows])
        sources = np.zeros(len(self.begins), np.int64)
        sources[rows] = 2 * np.arange(len(rows)) + 1
        return pieces.take(pa.array(sources, mask=~self.are_there))


def pieces_of(content: npt.NDArray[np.uint8], begins: Positions, ends: Positions) -> pa.BinaryArray:
    """The content cut at these positions, which ascend: every second piece is one of what was asked for, the others are
    what is between them."""
    cuts = np.zeros(2 * len(begins) + 2, np.int32)
    cuts[1:-1:2], cuts[2:-1:2], cuts[-1] = begins, ends, len(content)
    return pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), pa.py_buffer(content)])


def found(marks: Marks, name: bytes, deep: int = 1, inside: Spans | None = None) -> Values:
    """The members of this name, written without escapes: the top-level ones, or those of the objects `inside`, whose
    members are `deep` levels deep."""
    strings = np.flatnonzero(marks.closes - marks.opens == len(name) + 1)
    for step, byte in enumerate(name, 1):
        strings = strings[marks.content[marks.opens[strings] + step] == byte]
    return _members(marks, strings, deep, inside)


def top_level(marks: Marks) -> Values:
    """All members of the events, in the order in which they stand."""
    return _members(marks, np.arange(len(marks.opens)), 1, None)


def entries(marks: Marks, deep: int, inside: Spans) -> Values:
    """All members of these objects."""
    return _members(marks, np.arange(len(marks.opens)), deep, inside)


def _members(marks: Marks, strings: Positions, deep: int, inside: Spans | None) -> Values:
    """Of the strings those that are names."""
    strings = strings[marks.depth_at(marks.opens[strings]) == deep]
    if inside is not None:
        places = marks.opens[strings]
        rows = marks.rows_of(places)
        strings = strings[(places > inside.begins[rows]) & (places < inside.ends[rows])]
    colons, is_known = marks.walk(marks.closes[strings] + 1, ~WHITE_SPACE)
    is_name = (marks.content[colons] == ord(":")) | ~is_known
    strings, colons, is_known = strings[is_name], colons[is_name], is_known[is_name]
    begins, is_known_too = marks.walk(colons + 1, ~WHITE_SPACE)
    ends, is_end_known = _ends(marks, begins, deep)
    is_known = is_known & is_known_too & is_end_known
    return Values(marks.rows_of(marks.opens[strings]), strings, begins, ends, is_known)


def _ends(marks: Marks, begins: Positions, deep: int) -> tuple[Positions, Mask]:
    """Behind the last byte of each value."""
    first = marks.content[begins]
    ends, is_known = begins.copy(), np.ones(len(begins), np.bool_)
    is_text, is_nested = first == ord('"'), (first | 0x20) == ord("{")
    if is_text.any():
        ends[is_text] = marks.closes[np.searchsorted(marks.opens, begins[is_text])] + 1
    if is_nested.any():
        brackets, depths = marks.brackets
        back = brackets[(depths == deep) & (marks.content[brackets] & 2 == 0)]
        ends[is_nested] = back[np.searchsorted(back, begins[is_nested])] + 1
    scalars = np.flatnonzero(~is_text & ~is_nested)
    if len(scalars):
        ends[scalars], is_known[scalars] = marks.walk(begins[scalars], _ENDS_SCALAR)
    return ends, is_known
