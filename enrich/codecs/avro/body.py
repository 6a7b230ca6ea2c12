"""Decodes record bodies of one schema: many at once, then the doubtful ones one by one."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from enrich.codecs.avro.cursor import Cursor
from enrich.codecs.avro.node import Node
from enrich.codecs.avro.record import RecordBytes
from enrich.codecs.json.strict import build
from enrich.codecs.rows import Indexes, assemble
from enrich.codecs.unfit import Unfit
from stores.protocol import Decoded

# One pass of array operations takes as long as so many records one by one (measured with ten fields).
_FEWEST_AT_ONCE = 64


def decode_bodies(
    node: Node, content: npt.NDArray[np.uint8], starts: Indexes, ends: Indexes, kind: pa.StructType
) -> Decoded:
    """`starts` and `ends` must be ascending, and no body may be null."""
    everything = np.arange(len(starts))
    if len(starts) < _FEWEST_AT_ONCE:
        return _one_by_one(node, content, starts, ends, kind)
    cursor = Cursor.over(content, starts, ends)
    rows = node.many(cursor)
    cursor.fail(cursor.position != cursor.end)  # bytes left over
    if not cursor.bad.any():
        return Decoded(rows)
    good, doubtful = everything[~cursor.bad], everything[cursor.bad]
    again = _one_by_one(node, content, starts[doubtful], ends[doubtful], kind)
    pieces = [(good, rows.take(pa.array(good))), (doubtful, again.rows)]
    bad = {int(doubtful[index]): reason for index, reason in again.bad.items()}
    return Decoded(assemble(len(starts), [piece for piece in pieces if len(piece[0])], kind), bad)


def _one_by_one(
    node: Node, content: npt.NDArray[np.uint8], starts: Indexes, ends: Indexes, kind: pa.StructType
) -> Decoded:
    rows: list[object] = []
    bad: dict[int, str] = {}
    for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        record = RecordBytes(content[start:end].tobytes())
        row = None
        try:
            row = node.one(record)
            if record.left:
                raise Unfit("bytes left over after the record")
        except Unfit as error:
            row = None
            bad[index] = str(error)
        rows.append(row)
    return build(rows, bad, kind)
