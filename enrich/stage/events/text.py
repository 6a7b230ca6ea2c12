"""Enriched events as JSON text, in columns: objects are spliced into the original bytes, so that everything else passes
through unchanged."""

import json
import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.json.encoding import JsonEncoder
from enrich.codecs.rows import extents
from enrich.stage.task.fate import Mask

_WHITE_SPACE = " \t\r\n"
# An escaped backslash does not start an escape sequence.
_LOWER = re.compile(rb"(?<!\\)((?:\\\\)*\\u00[01])([a-f])")


def object_text(rows: pa.StructArray) -> pa.BinaryArray:
    """Each row as a JSON object. Null fields are written as null."""
    texts = _in_upper_case(JsonEncoder().encode(pa.RecordBatch.from_struct_array(rows)).values)
    return pc.if_else(rows.is_valid(), texts, _bytes(b"null")) if rows.null_count else texts


def _in_upper_case(texts: pa.BinaryArray) -> pa.BinaryArray:
    r"""Writes `\u001F` for `\u001f`, as Spark does, so that both joins write the same bytes."""
    has_some = pc.match_substring(texts, b"\\u00")
    if not pc.any(has_some).as_py():
        return texts
    written = [_LOWER.sub(_upper, text) for text in texts.filter(has_some).to_pylist()]
    return pc.replace_with_mask(texts, has_some.fill_null(False), pa.array(written, texts.type))


def _upper(found: re.Match[bytes]) -> bytes:
    return found[1] + found[2].upper()


def members_text(members: Mapping[str, pa.BinaryArray]) -> pa.BinaryArray:
    """`"a":{...},"b":null` for each row."""
    parts: list[pa.Array | pa.Scalar] = []
    for name, texts in members.items():
        quoted = json.dumps(name, ensure_ascii=False)
        parts += [_bytes(f"{',' if parts else ''}{quoted}:".encode()), texts]
    return _joined(*parts)


def object_of(members: Mapping[str, pa.BinaryArray]) -> pa.BinaryArray:
    return _joined(_bytes(b"{"), members_text(members), _bytes(b"}"))


def spliced(events: pa.BinaryArray, wanted: Mask, members: pa.BinaryArray) -> pa.BinaryArray:
    """The wanted events, which must be usable, with further members. The others are null."""
    opened = _opened(pc.if_else(pa.array(wanted), events, pa.scalar(None, events.type)))
    return _joined(opened, members, _bytes(b"}"))


def _opened(events: pa.BinaryArray) -> pa.BinaryArray:
    """The objects without their closing braces, and with a comma if they have members."""
    plain = _are_plain(events)
    opened = _joined(pc.binary_slice(events, 0, -1), _bytes(b","))
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
    return pc.if_else(is_empty, bodies, _joined(bodies, pa.scalar(","))).cast(events.type)


def _nulls(events: pa.BinaryArray) -> Mask:
    return np.array(events.is_null().to_numpy(zero_copy_only=False), np.bool_)


def _bytes(text: bytes) -> pa.Scalar:
    return pa.scalar(text, pa.binary())


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """The parts concatenated. Null if one of them is."""
    nothing = "" if pa.types.is_string(parts[0].type) else b""
    return pc.binary_join_element_wise(*parts, pa.scalar(nothing, parts[0].type))
