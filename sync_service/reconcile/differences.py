"""The differences, kept in arrays: for a store that lost a million rows they take about 40 MiB."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sync_service.reconcile.digests import Flags
from sync_service.reconcile.stamps import NONE, STAMP, Stamp, Stamps

KINDS = ("", "missing", "extra", "older", "altered", "newer", "unwritable", "foreign")
LEFT_ALONE = ("newer", "unwritable")
"""Kinds that a repair does not touch: the store may be right."""
_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A key whose row in the store differs from the topic."""

    key: bytes
    kind: str
    """missing; extra; older, or of the same version and a lower release; altered (other content, or a version that no
    record has); newer than any record of the topic; unwritable: the key's record cannot become a row, but the store has
    one."""
    topic_version: int | None
    store_version: int | None
    topic_release: int = 0
    store_release: int = 0


@dataclass(eq=False, repr=False)
class Differences(Sequence[Difference]):
    """All differences of one comparison."""

    keys: pa.Array
    kinds: npt.NDArray[np.uint8]
    """Indexes into KINDS."""
    topic_versions: Stamps
    """NONE: none."""
    store_versions: Stamps

    @classmethod
    def none(cls) -> "Differences":
        return cls(pa.array([], pa.binary()), np.zeros(0, np.uint8), np.zeros(0, STAMP), np.zeros(0, STAMP))

    def where(self, chosen: Flags) -> "Differences":
        if chosen.all():
            return self
        kinds, topic, store = self.kinds[chosen], self.topic_versions[chosen], self.store_versions[chosen]
        return Differences(self.keys.filter(pa.array(chosen)), kinds, topic, store)

    def of(self, kinds: Collection[str]) -> "Differences":
        return self.where(self._are(kinds))

    def but(self, kinds: Collection[str]) -> "Differences":
        return self.where(~self._are(kinds))

    def count_of(self, *kinds: str) -> int:
        return int(self._are(kinds).sum())

    def __len__(self) -> int:
        return len(self.kinds)

    def __iter__(self) -> Iterator[Difference]:
        for start in range(0, len(self), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            columns = (self.kinds[part], self.topic_versions[part], self.store_versions[part])
            for key, kind, topic, store in zip(
                self.keys[part].to_pylist(), *(column.tolist() for column in columns), strict=True
            ):
                yield _difference(key, kind, topic, store)

    @overload
    def __getitem__(self, place: int) -> Difference: ...
    @overload
    def __getitem__(self, place: slice) -> "Differences": ...
    def __getitem__(self, place: int | slice) -> "Difference | Differences":
        kinds, topic, store = self.kinds[place], self.topic_versions[place], self.store_versions[place]
        if isinstance(place, slice):
            return Differences(self.keys[place], kinds, topic, store)
        return _difference(self.keys[place].as_py(), int(kinds), (*topic.tolist(),), (*store.tolist(),))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment] # as for other sequences that are compared by content

    def __repr__(self) -> str:
        return f"{list(self[:20])!r}{f' and {len(self) - 20} more' if len(self) > 20 else ''}"

    def _are(self, kinds: Collection[str]) -> Flags:
        flags: Flags = np.isin(self.kinds, [KINDS.index(kind) for kind in kinds])
        return flags


def _difference(key: bytes, kind: int, topic: Stamp, store: Stamp) -> Difference:
    versions = (None if topic == NONE else topic[0], None if store == NONE else store[0])
    return Difference(key, KINDS[kind], *versions, topic[1], store[1])
