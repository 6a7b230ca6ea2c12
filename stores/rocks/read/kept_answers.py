"""A cache of answers to look-ups without a time or pin: decoded, in columns, found by one look into a dict.

RocksDB caches its blocks anyway; everything after that is what costs time. So answers are cached and not rows: see
docs/adr/0012.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stores.answers import chosen, require_columns
from stores.keys import key_bytes
from stores.protocol import TableView
from stores.table import Found

_RECENT = 4_096
"""The newest answers, at least so many, are in an array of their own: adding one copies its array."""
_VALUES, *_OTHERS = "values", "status", "partition", "offset", "timestamp"


class KeptAnswers:
    """The answers of one table, at most `most`. For one thread. Before it asks a newer view, it must call `forget` with
    the keys that have changed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: dict[bytes | None, int] = {}
        self._settled: pa.StructArray | None = None
        self._recent: pa.StructArray | None = None
        self._size = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._places)

    def forget(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._places.pop(key, None)

    def forget_all(self) -> None:
        self._places.clear()
        self._settled = self._recent = None
        self._size = 0

    def find(self, view: TableView, keys: pa.Array, columns: Sequence[str]) -> Found:
        """The view's answer. The view is asked only for the keys that are not cached."""
        require_columns(view.columns, columns)
        encoded = key_bytes(keys).dictionary_encode(null_encoding="encode")
        distinct: list[bytes | None] = encoded.dictionary.to_pylist()
        if not 0 < len(distinct) <= self._most:
            return view.lookup(keys, columns)
        places, missing = self._known(distinct)
        if self._size + len(missing) > self._most:
            # Single answers are not evicted: keeping track would slow down each hit. Hot keys are soon cached again.
            self.forget_all()
            places, missing = self._known(distinct)
        self.hits += len(distinct) - len(missing)
        self.misses += len(missing)
        if missing:
            found = view.lookup(encoded.dictionary.take(pa.array(missing)), view.columns.names)
            for place, at in enumerate(missing, self._size):
                self._places[distinct[at]] = places[at] = place
            self._add(found)
        return self._gathered(np.array(places, np.int64), encoded.indices.to_numpy(), columns)

    def _known(self, keys: list[bytes | None]) -> tuple[list[int], list[int]]:
        """The index of each key's answer (-1 if it is not cached), and which keys are not cached."""
        get = self._places.get
        places = [get(key, -1) for key in keys]
        return places, [at for at, place in enumerate(places) if place < 0]

    def _add(self, found: Found) -> None:
        arrays = [found.values, *(getattr(found, name) for name in _OTHERS)]
        recent = _joined(self._recent, pa.StructArray.from_arrays(arrays, names=[_VALUES, *_OTHERS]))
        self._size += len(found.status)
        if len(recent) > max(_RECENT, 0 if self._settled is None else len(self._settled) // 4):
            self._settled, self._recent = _joined(self._settled, recent), None
        else:
            self._recent = recent

    def _gathered(self, places: npt.NDArray[np.int64], which: npt.NDArray[np.int32], columns: Sequence[str]) -> Found:
        """The answers at these places, each as often as `which` names it."""
        split = 0 if self._settled is None else len(self._settled)
        is_recent = places >= split
        both = ((self._settled, places[~is_recent]), (self._recent, places[is_recent] - split))
        kept = pa.concat_arrays([array.take(pa.array(at)) for array, at in both if array is not None])
        ranks = np.empty(len(places), np.int64)
        ranks[np.argsort(is_recent, kind="stable")] = np.arange(len(places))
        wanted = pa.array(ranks[which])
        rows = kept.field(_VALUES)
        is_row = rows.is_valid().take(wanted)  # choosing columns loses the validity of the row
        return Found(
            chosen(rows, columns).take(pc.if_else(is_row, wanted, None)),
            *(kept.field(name).take(wanted) for name in _OTHERS),
        )


def _joined(first: pa.StructArray | None, second: pa.StructArray) -> pa.StructArray:
    return second if first is None else pa.concat_arrays([first, second])
