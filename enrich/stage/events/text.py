"""Values of any column type as JSON text, in columns: what Spark's `to_json` writes. docs/formats.md has the forms, and
where they differ."""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import ConfigError
from enrich.codecs.joining import joined, null_where
from enrich.stage.events.scalar_text import KEYS, SCALARS, ToText, quoted

_NULL = b"null"


def json_text(values: pa.Array) -> pa.BinaryArray:
    """Each value as JSON; null as `null`. Raises ConfigError for a type that JSON has no form for."""
    texts = _texts(values)
    return pc.fill_null(texts, _NULL) if texts.null_count else texts


def can_write(kind: pa.DataType) -> bool:
    """Whether JSON has a form for the type. It has none for maps whose keys are binary, lists or objects."""
    try:
        _check(kind)
    except ConfigError:
        return False
    return True


def members_text(members: Mapping[str, pa.BinaryArray]) -> pa.BinaryArray:
    """`"a":{...},"b":null` for each row, from the JSON texts of the members."""
    parts: list[pa.Array | pa.Scalar] = []
    for name, texts in members.items():
        parts += [_bytes((b"," if parts else b"") + name_text(name) + b":"), texts]
    return joined(*parts)


def object_of(members: Mapping[str, pa.BinaryArray]) -> pa.BinaryArray:
    return joined(_bytes(b"{"), members_text(members), _bytes(b"}"))


@cache
def name_text(name: str) -> bytes:
    """A member's name as a JSON string."""
    return bytes(quoted(pa.array([name]))[0].as_py())


def _texts(values: pa.Array) -> pa.BinaryArray:
    """As `json_text`, but null stays null."""
    kind = values.type
    if not len(values):
        _check(kind)
        return pa.array([], pa.binary())
    if pa.types.is_struct(kind):
        return _struct(values)
    if pa.types.is_list(kind):
        return _list(values)
    if pa.types.is_map(kind):
        return _map(values)
    return _scalar(kind)(values)


def _scalar(kind: pa.DataType) -> ToText:
    for matches, to_text in SCALARS:
        if matches(kind):
            return to_text
    raise ConfigError(f"a value of type {kind} cannot be written as JSON")


def _key(kind: pa.DataType) -> ToText:
    for matches, to_text in KEYS:
        if matches(kind):
            return to_text
    raise ConfigError(f"a map with keys of type {kind} cannot be written as JSON")


def _check(kind: pa.DataType) -> None:
    if pa.types.is_map(kind):
        _key(kind.key_type)
        _check(kind.item_type)
    elif pa.types.is_struct(kind) or pa.types.is_list(kind):
        for index in range(kind.num_fields):
            _check(kind.field(index).type)
    else:
        _scalar(kind)


def _struct(values: pa.StructArray) -> pa.BinaryArray:
    kind = values.type
    if not kind.num_fields:
        texts = pa.repeat(_bytes(b"{}"), len(values))
    else:
        # `field`, not `flatten`: what is in a null struct is not looked at.
        names = [name_text(kind.field(index).name) for index in range(kind.num_fields)]
        parts: list[pa.Array | pa.Scalar] = []
        for index, name in enumerate(names):
            parts += [_bytes((b"," if index else b"{") + name + b":"), json_text(values.field(index))]
        texts = joined(*parts, _bytes(b"}"))
    return null_where(values, texts)


def _list(values: pa.ListArray) -> pa.BinaryArray:
    offsets, (items,) = _contents(values, values.values)
    return null_where(values, _enclosed(b"[", offsets, json_text(items), b"]"))


def _map(values: pa.MapArray) -> pa.BinaryArray:
    offsets, (keys, items) = _contents(values, values.keys, values.items)
    entries = joined(_key(keys.type)(keys), _bytes(b":"), json_text(items))
    return null_where(values, _enclosed(b"{", offsets, entries, b"}"))


def _contents(values: pa.Array, *children: pa.Array) -> tuple[pa.Int32Array, list[pa.Array]]:
    """What the lists contain, without what is outside of a slice or below a null; and where each list starts in it."""
    offsets = values.offsets.to_numpy()
    lengths = np.diff(offsets)
    contents = [child.slice(int(offsets[0]), int(offsets[-1] - offsets[0])) for child in children]
    if values.null_count:
        valid = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        if lengths[~valid].any():
            contents = [child.filter(pa.array(np.repeat(valid, lengths))) for child in contents]
        lengths = np.where(valid, lengths, 0)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), contents


def _enclosed(opening: bytes, offsets: pa.Int32Array, items: pa.BinaryArray, closing: bytes) -> pa.BinaryArray:
    return joined(
        _bytes(opening), pc.binary_join(pa.ListArray.from_arrays(offsets, items), _bytes(b",")), _bytes(closing)
    )


def _bytes(text: bytes) -> pa.Scalar:
    return pa.scalar(text, pa.binary())
