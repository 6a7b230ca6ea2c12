"""Adds members to events in columns: they are spliced into the original bytes, so that everything else passes through
unchanged."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.joining import joined
from enrich.codecs.rows import extents
from enrich.stage.task.fate import Mask

_WHITE_SPACE = " \t\r\n"


def spliced(events: pa.BinaryArray, wanted: Mask, members: pa.BinaryArray) -> pa.BinaryArray:
    """The wanted events, which must be usable, with further members. The others are null."""
    opened = _opened(pc.if_else(pa.array(wanted), events, pa.scalar(None, events.type)))
    return joined(opened, members, _bytes(b"}"))


def _opened(events: pa.BinaryArray) -> pa.BinaryArray:
    """The objects without their closing braces, and with a comma if they have members."""
    plain = _are_plain(events)
    opened = joined(pc.binary_slice(events, 0, -1), _bytes(b","))
    if plain.all():
        return opened
    return pc.replace_with_mask(opened, pa.array(~plain), _opened_slowly(events.filter(pa.array(~plain))))


def _are_plain(events: pa.BinaryArray) -> Mask:
    """Which objects have members and no white space before or after the closing brace. Nulls count as such."""
    content, starts, ends = extents(events)
    plain = _nulls(events)
    places = np.flatnonzero(ends - starts >= len(b"{}"))
    last, before = content[ends[places] - 1], content[ends[places] - 2]
    plain[places] = (last == ord("}")) & (before > ord(" ")) & (before != ord("{"))
    return plain


def _opened_slowly(events: pa.BinaryArray) -> pa.BinaryArray:
    """Like `_opened`, for any objects."""
    bodies = pc.utf8_slice_codeunits(pc.utf8_trim(events.cast(pa.string()), _WHITE_SPACE), 0, -1)
    is_empty = pc.equal(pc.utf8_rtrim(bodies, _WHITE_SPACE), "{")
    return pc.if_else(is_empty, bodies, joined(bodies, pa.scalar(","))).cast(events.type)


def _nulls(events: pa.BinaryArray) -> Mask:
    return np.array(events.is_null().to_numpy(zero_copy_only=False), np.bool_)


def _bytes(text: bytes) -> pa.Scalar:
    return pa.scalar(text, pa.binary())
