"""Decodes JSON values to rows: a missing field is null, an extra one is ignored, a wrong type makes the value bad."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from enrich.codecs.json.fast import Doubt, FastJson, plausible
from enrich.codecs.json.shape import trimmed
from enrich.codecs.json.strict import StrictJson
from enrich.codecs.rows import Indexes, completed, decode_in_batches, extents
from stores.protocol import Decoded, Decoder

# One call of Arrow's parser takes as long as 60 small rows in the strict one, or a few large ones (0.2 ms, measured).
_FEWEST_FAST = 64
_FEWEST_BYTES_FAST = 2**14
# A batch is tried again without its bad values as long as a try decodes so many rows on average; with more bad values,
# about 1 in 200, the strict parser is faster.
_TRIES_TO_START = 8
_FEWEST_A_TRY = 100
# A batch with a bad value at an unknown row is split into so many parts.
_PARTS = 4


class JsonDecoder:
    """Decodes batches of JSON objects into rows of the given columns: fast if values are good, one by one around bad
    ones."""

    def __init__(self, columns: pa.Schema, one_by_one: Decoder | None = None) -> None:
        """`one_by_one`: decides about doubtful values instead of `StrictJson`. Must accept what the fast path does."""
        self._kind = pa.struct(list(columns))
        self._one_by_one = one_by_one or StrictJson(self._kind)
        self._fast = FastJson(self._kind) if FastJson.can_read(self._kind) else None

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return decode_in_batches(values, self._kind, self._decode_batch)

    def _decode_batch(self, values: pa.BinaryArray) -> Decoded:
        _, starts, ends = extents(values)
        sizes = ends - starts
        if self._fast is None or not _worth_it(sizes):
            return self._one_by_one.decode(values)
        plain = trimmed(values)
        pieces = list(_fast_pieces(self._fast, plain, np.flatnonzero(plausible(plain, self._kind)), sizes))
        slow = np.ones(len(values), np.bool_)
        for indexes, _ in pieces:
            slow[indexes] = False
        return completed(values, pieces, slow, self._one_by_one, self._kind)


def _worth_it(sizes: Indexes) -> bool:
    return len(sizes) >= _FEWEST_FAST or int(sizes.sum()) >= _FEWEST_BYTES_FAST


def _fast_pieces(
    fast: FastJson, values: pa.BinaryArray, indexes: Indexes, sizes: Indexes
) -> Iterator[tuple[Indexes, pa.StructArray]]:
    """The rows that the fast parser can decode."""
    waiting = [indexes]
    tries = answered = 0
    while waiting and (tries < _TRIES_TO_START or answered >= tries * _FEWEST_A_TRY):
        part = waiting.pop()
        if not _worth_it(sizes[part]):
            continue
        tries += 1
        rows = fast.rows(values if len(part) == len(values) else values.take(pa.array(part)))
        if not isinstance(rows, Doubt):
            answered += len(part)
            yield part, rows
        elif rows.index is not None:
            waiting += [part[rows.index + 1 :], part[: rows.index]]
        elif len(part) > 1:
            waiting += np.array_split(part, _PARTS)
