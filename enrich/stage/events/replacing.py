"""Replaces the values of members of events in columns; all other bytes stay as they are."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.rows import extents
from enrich.stage.events.one_by_one import PARSER
from enrich.stage.events.splicing import spliced
from enrich.stage.events.text import joined, name_text
from enrich.stage.task.fate import Mask

_Positions = npt.NDArray[np.int64]

_MOST_STEPS = 64
"""White space and numbers are walked over byte by byte, for all events at once. Events with longer ones go the slow
way, or one event would hold up all others."""
_SPACE = re.compile(r"[ \t\r\n]*")
_WHITE_SPACE = np.zeros(256, np.bool_)
_WHITE_SPACE[list(b" \t\r\n")] = True
_ENDS_SCALAR = _WHITE_SPACE.copy()
_ENDS_SCALAR[list(b",}")] = True


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
    marks = _Marks.of(events)
    found = [_found(marks, name.encode()) for name in members]
    is_odd = marks.with_escaped_names()
    for each in found:
        is_odd[each.rows[~each.is_known]] = True
    missing = [~is_odd & ~_has_row(each.rows, len(events)) for each in found]
    made = _with_values(events, marks, [each.without(is_odd) for each in found], list(members.values()))
    made = _with_missing(made, missing, members)
    if is_odd.any():
        made = pc.replace_with_mask(made, pa.array(is_odd), _slowly(events, np.flatnonzero(is_odd), members))
    return made


@dataclass(frozen=True)
class _Values:
    """Where values begin and end, and the rows of their events."""

    rows: _Positions
    begins: _Positions
    ends: _Positions
    is_known: Mask
    """False if the end was not found in time."""

    def without(self, is_odd: Mask) -> "_Values":
        kept = ~is_odd[self.rows]
        return _Values(self.rows[kept], self.begins[kept], self.ends[kept], self.is_known[kept])


@dataclass(frozen=True)
class _Marks:
    """The strings and brackets of a batch of usable events. Positions are those in `content`."""

    content: npt.NDArray[np.uint8]
    starts: _Positions
    """Of the events."""
    opens: _Positions
    """The first quotes of all strings."""
    closes: _Positions
    backslashes: _Positions

    @classmethod
    def of(cls, events: pa.BinaryArray) -> "_Marks":
        data, starts, ends = extents(events)
        begin = int(starts[0])
        content = data[begin : int(ends[-1])]
        quotes, backslashes = np.flatnonzero(content == ord('"')), np.flatnonzero(content == ord("\\"))
        if len(backslashes):
            quotes = quotes[~_are_escaped(quotes, backslashes)]
        return cls(content, starts - begin, quotes[0::2], quotes[1::2], backslashes)

    def rows_of(self, positions: _Positions) -> _Positions:
        return np.searchsorted(self.starts, positions, "right") - 1

    @cached_property
    def brackets(self) -> tuple[_Positions, _Positions]:
        """The brackets outside of strings, and how deep each leads, or leads back to."""
        without_case = self.content | 0x20  # [ and { become the same, and so do ] and }
        positions = np.flatnonzero((without_case == ord("{")) | (without_case == ord("}")))
        before = np.searchsorted(self.opens, positions)
        is_inside = before > np.searchsorted(self.closes, positions)
        positions = positions[~is_inside]
        return positions, np.cumsum((self.content[positions] & 2).astype(np.int64) - 1)  # `& 2` is 2 if it opens

    def depth_at(self, positions: _Positions) -> _Positions:
        brackets, depths = self.brackets
        return depths[np.searchsorted(brackets, positions) - 1]

    def with_escaped_names(self) -> Mask:
        """Events with a name that is written with a backslash: it may be any name."""
        is_odd = np.zeros(len(self.starts), np.bool_)
        if len(self.backslashes):
            strings = np.unique(np.searchsorted(self.opens, self.backslashes) - 1)
            after, is_known = self.walk(self.closes[strings] + 1, ~_WHITE_SPACE)
            is_odd[self.rows_of(self.opens[strings[~is_known | (self.content[after] == ord(":"))]])] = True
        return is_odd

    def walk(self, positions: _Positions, stops: Mask) -> tuple[_Positions, Mask]:
        """From each position on, the first with a byte that stops; and which were found within `_MOST_STEPS`."""
        positions = positions.copy()
        going = np.flatnonzero(~stops[self.content[positions]])
        for _ in range(_MOST_STEPS):
            if not len(going):
                break
            positions[going] += 1
            going = going[~stops[self.content[positions[going]]]]
        is_known = np.ones(len(positions), np.bool_)
        is_known[going] = False
        return positions, is_known


def _are_escaped(quotes: _Positions, backslashes: _Positions) -> Mask:
    """Which quotes follow an odd number of backslashes."""
    begins = backslashes[np.diff(backslashes, prepend=-2) != 1]
    run = np.searchsorted(begins, quotes) - 1
    last = np.searchsorted(backslashes, quotes) - 1
    follows = (last >= 0) & (backslashes[last] == quotes - 1)
    return np.asarray(follows & ((quotes - begins[run]) % 2 == 1), np.bool_)


def _found(marks: _Marks, name: bytes) -> _Values:
    """The values of the top-level members of this name, written without escapes."""
    strings = np.flatnonzero(marks.closes - marks.opens == len(name) + 1)
    for step, byte in enumerate(name, 1):
        strings = strings[marks.content[marks.opens[strings] + step] == byte]
    colons, is_known = marks.walk(marks.closes[strings] + 1, ~_WHITE_SPACE)
    is_name = (marks.content[colons] == ord(":")) | ~is_known
    is_name &= marks.depth_at(marks.opens[strings]) == 1
    strings, colons, is_known = strings[is_name], colons[is_name], is_known[is_name]
    begins, is_known_too = marks.walk(colons + 1, ~_WHITE_SPACE)
    ends, is_end_known = _ends(marks, begins)
    is_known = is_known & is_known_too & is_end_known
    return _Values(marks.rows_of(marks.opens[strings]), begins, ends, is_known)


def _ends(marks: _Marks, begins: _Positions) -> tuple[_Positions, Mask]:
    """Behind the last byte of each value."""
    first = marks.content[begins]
    ends, is_known = begins.copy(), np.ones(len(begins), np.bool_)
    is_text, is_nested = first == ord('"'), (first | 0x20) == ord("{")
    if is_text.any():
        ends[is_text] = marks.closes[np.searchsorted(marks.opens, begins[is_text])] + 1
    if is_nested.any():
        brackets, depths = marks.brackets
        back = brackets[(depths == 1) & (marks.content[brackets] & 2 == 0)]
        ends[is_nested] = back[np.searchsorted(back, begins[is_nested])] + 1
    scalars = np.flatnonzero(~is_text & ~is_nested)
    if len(scalars):
        ends[scalars], is_known[scalars] = marks.walk(begins[scalars], _ENDS_SCALAR)
    return ends, is_known


def _with_values(
    events: pa.BinaryArray, marks: _Marks, found: list[_Values], texts: list[pa.BinaryArray]
) -> pa.BinaryArray:
    """The events cut into what is kept and what is replaced, alternately, and joined again."""
    begins = np.concatenate([each.begins for each in found])
    if not len(begins):
        return events
    order = np.argsort(begins)
    rows = np.concatenate([each.rows for each in found])
    sources = np.concatenate([each.rows + len(events) * member for member, each in enumerate(found)])[order]
    ends = np.concatenate([each.ends for each in found])[order]
    cuts = np.concatenate([marks.starts, begins[order], ends, [len(marks.content)]])
    cuts.sort(kind="stable")
    pieces = pa.Array.from_buffers(
        pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts.astype(np.int32)), pa.py_buffer(marks.content)]
    )
    is_value = np.zeros(len(pieces), np.bool_)
    is_value[np.searchsorted(cuts, begins[order], "right") - 1] = True
    values = pa.concat_arrays([each.cast(pa.binary()) for each in texts]).take(pa.array(sources))
    pieces = pc.replace_with_mask(pieces, pa.array(is_value), values)
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


def _has_row(rows: _Positions, count: int) -> Mask:
    has_row = np.zeros(count, np.bool_)
    has_row[rows] = True
    return has_row


def _slowly(events: pa.BinaryArray, rows: _Positions, members: dict[str, pa.BinaryArray]) -> pa.BinaryArray:
    """Like `_replaced`, for some of the events: Python's parser tells where names and values are."""
    made = []
    for row in rows.tolist():
        texts = {name: values[row].as_py().decode() for name, values in members.items()}
        made.append(_one_replaced(events[row].as_py().decode(), texts).encode())
    return pa.array(made, pa.binary())


def _one_replaced(event: str, texts: dict[str, str]) -> str:
    kept, missing, at = [], dict(texts), 0
    place = _after_space(event, event.index("{") + 1)
    while event[place] != "}":
        name, place = PARSER.raw_decode(event, place)
        place = _after_space(event, _after_space(event, place) + 1)  # behind the colon
        _, end = PARSER.raw_decode(event, place)
        if name in texts:
            kept += [event[at:place], texts[name]]
            missing.pop(name, None)
            at = end
        place = _after_space(event, end)
        if event[place] == ",":
            place = _after_space(event, place + 1)
    return "".join(kept) + event[at:] if not missing else _spliced(["".join(kept), event[at:]], missing)


def _spliced(event: list[str], missing: dict[str, str]) -> str:
    (text,) = spliced(
        pa.array(["".join(event).encode()], pa.binary()),
        np.ones(1, np.bool_),
        pa.array([b",".join(name_text(name) + b":" + value.encode() for name, value in missing.items())], pa.binary()),
    ).to_pylist()
    return str(text.decode())


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _bytes(text: bytes) -> pa.Scalar:
    return pa.scalar(text, pa.binary())
