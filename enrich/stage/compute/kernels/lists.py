"""Lists: how long they are, their items, and what they contain."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.comparing import equal
from enrich.stage.compute.kernels.values import Bits, Kernel, on_columns
from enrich.stage.compute.nodes import Call


def _size(call: Call, values: list[pa.Array]) -> pa.Array:
    """`options`: what null has."""
    return pc.coalesce(pc.list_value_length(values[0]), pa.scalar(call.options[0], call.kind))


def _item(call: Call, values: list[pa.Array]) -> pa.Array:
    """`options`: its place, from 0, or from the end if negative. Null if there is none."""
    (place,) = call.options
    column = values[0]
    offsets = column.offsets.to_numpy()
    begin, end = offsets[:-1], offsets[1:]
    at = begin + place if place >= 0 else end + place
    there = _valid(column) & (at >= begin) & (at < end)
    return column.values.take(pa.array(at, pa.int64(), mask=~there))


def _contains(_: Call, values: list[pa.Array]) -> pa.Array:
    """Null where nothing was found and an item is null. `values`: the list, and what is looked for."""
    column, wanted = values
    # By offsets, since null lists may have items too, and slices have those of others around them.
    offsets = column.offsets.to_numpy()
    items = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    parents = np.repeat(np.arange(len(column)), np.diff(offsets))
    same = equal(items, wanted.take(pa.array(parents)))
    found, unknown = np.zeros(len(column), np.bool_), np.zeros(len(column), np.bool_)
    found[parents[np.asarray(pc.coalesce(same, pa.scalar(False)))]] = True
    unknown[parents[np.asarray(items.is_null())]] = True
    is_null = ~_valid(column) | ~_valid(wanted) | (unknown & ~found)
    return pa.array(found, mask=is_null)


def _valid(column: pa.Array) -> Bits:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


LISTS: Mapping[str, Kernel] = {
    "size": on_columns(_size),
    "item": on_columns(_item),
    "list_contains": on_columns(_contains),
}
