"""Maps as lists of entries, which Arrow's parser can read."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.task.fate import Mask

KEY, VALUE = b"k", b"v"
"""The names of an entry's parts in JSON."""


def can_list(kind: pa.DataType) -> bool:
    """Whether it is a map whose values have no maps in them."""
    return bool(pa.types.is_map(kind)) and not _has_map(kind.item_type)


def listed(kind: pa.DataType) -> pa.DataType:
    """The type with lists of entries in place of maps that are not below a list."""
    if can_list(kind):
        return pa.list_(pa.struct([(KEY.decode(), kind.key_type), (VALUE.decode(), kind.item_type)]))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, listed(field.type)) for field in kind])
    return kind


def mapped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values, of the type `listed(kind)`, as values of this type."""
    if values.type == kind:
        return values
    if can_list(kind):
        keys, items = (values.values.field(part) for part in (0, 1))
        parts = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, len(values), values.buffers()[:2], values.null_count, values.offset, [parts])
    children = [mapped(values.field(index), kind.field(index).type) for index in range(kind.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())


def has_equal_keys(rows: pa.StructArray, kind: pa.StructType) -> Mask:
    """In which rows a map, still as a list, has a key twice."""
    found = np.zeros(len(rows), np.bool_)
    for lists in _lists(rows, kind):
        keys = lists.flatten().field(0).dictionary_encode()
        parents = pc.list_parent_indices(lists).to_numpy()
        each = parents * max(len(keys.dictionary), 1) + keys.indices.to_numpy()
        _, first = np.unique(each, return_index=True)
        is_again = np.ones(len(each), np.bool_)
        is_again[first] = False
        found[parents[is_again]] = True
    return found


def _lists(values: pa.StructArray, kind: pa.StructType) -> Iterator[pa.ListArray]:
    for index, values_of in enumerate(values.flatten()):
        each = kind.field(index).type
        if can_list(each):
            yield values_of
        elif pa.types.is_struct(each):
            yield from _lists(values_of, each)


def _has_map(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind)) or any(_has_map(kind.field(index).type) for index in range(kind.num_fields))
