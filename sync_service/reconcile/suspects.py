"""Keys that differed in the first comparison, and the verdict on each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sync_service.reconcile.differences import KINDS, Differences
from sync_service.reconcile.digests import Expected, Flags, Indexes, Numbers, found_in
from sync_service.reconcile.stamps import NONE, STAMP, Stamp, Stamps, filled
from sync_service.reconcile.topic import Part


@dataclass(eq=False)
class Suspects:
    """Columns with one entry per key, sorted by the hash of the key."""

    keys: pa.Array
    hashes: Numbers
    newest: Stamps
    """Of the topic's newest record of the key; NONE if it has none."""
    digests: Numbers
    """Of that record; 0 if there is none."""
    counted: Flags
    unwritable: Flags
    scanned: Stamps
    """Of the row in the store that made it a suspect; ABSENT if there was no row."""
    followed: dict[int, dict[Stamp, int]] = field(default_factory=dict)
    """Hash -> stamp -> digest (0: deleted) of records that came to the topic meanwhile."""

    @classmethod
    def gathered(
        cls,
        expected: Expected,
        chosen: Indexes,
        keys: pa.Array,
        scanned: Stamps,
        extras: "Extras",
        unwritable: Numbers,
    ) -> "Suspects":
        """From keys of the topic, chosen from `expected`, and keys that only the store has."""
        some, only_store = expected.where(chosen), extras.all()
        if not len(only_store.hashes):  # as with an emptied store: the keys are sorted already
            bad = np.isin(some.hashes, unwritable)
            return cls(keys, some.hashes, some.versions, some.digests, some.counted, bad, scanned[chosen])
        hashes = np.concatenate([some.hashes, only_store.hashes])
        order = np.argsort(hashes)
        more = len(only_store.hashes)
        columns: tuple[Any, ...] = (
            np.concatenate([some.versions, filled(more, NONE)]),
            np.concatenate([some.digests, np.zeros(more, np.uint64)]),
            np.concatenate([some.counted, np.zeros(more, bool)]),
            np.isin(hashes, unwritable),
            np.concatenate([scanned[chosen], only_store.versions]),
        )
        all_keys = pa.concat_arrays([keys, only_store.keys]).take(pa.array(order))
        newest, digests, counted, bad, seen = (column[order] for column in columns)
        return cls(all_keys, hashes[order], newest, digests, counted, bad, seen)

    def __len__(self) -> int:
        return len(self.hashes)

    def where(self, chosen: Indexes) -> "Suspects":
        keys = self.keys.take(pa.array(chosen))
        names = ("hashes", "newest", "digests", "counted", "unwritable", "scanned")
        return replace(self, keys=keys, **{name: getattr(self, name)[chosen] for name in names})

    def follow(self, part: Part) -> None:
        """Adds records that came to the topic."""
        places, found = found_in(self.hashes, part.compared.hashes)
        if found.any():  # `TopicBefore` may refer to the present arrays
            self.newest, self.digests, self.counted = self.newest.copy(), self.digests.copy(), self.counted.copy()
        for index in np.flatnonzero(found).tolist():
            place, version = places[index], part.compared.versions[index].item()
            self.followed.setdefault(int(self.hashes[place]), {}).setdefault(version, int(part.compared.digests[index]))
            if version > self.newest[place].item():
                self.newest[place], self.digests[place] = version, part.compared.digests[index]
                self.counted[place] = part.compared.counted[index]

    def verdicts(self, then: "TopicBefore", stored: "Stored") -> Differences:
        """All suspects with their verdict; those that do not differ have the first of KINDS."""
        kinds = np.zeros(len(self), np.uint8)
        columns = (self.hashes, then.newest, then.digests, self.digests, self.counted, self.unwritable)
        for start in range(0, len(self), 10_000):
            part = slice(start, start + 10_000)
            rows = zip(
                *(column[part].tolist() for column in columns),
                stored.versions[part].tolist(),
                stored.digests[part].tolist(),
                strict=True,
            )
            for index, (hash_, newest, digest, last, counted, unwritable, version, found) in enumerate(rows, start):
                said = {newest: digest} if newest != NONE else {}
                came = self.followed.get(hash_)
                if came is not None:
                    said = {**came, **said}
                kind = kind_of(said, newest, last != 0, version, found, counted=counted, unwritable=unwritable)
                kinds[index] = KINDS.index(kind)
        return Differences(self.keys, kinds, then.newest, stored.versions)


class TopicBefore:
    """The topic's newest records before the store was read."""

    def __init__(self, suspects: Suspects) -> None:
        self.newest = suspects.newest
        self.digests = suspects.digests


class Stored:
    """The store's stamps (NONE: none) and digests (0: no row, or a deleted one)."""

    def __init__(self, versions: Sequence[Stamps], digests: Sequence[Numbers]) -> None:
        self.versions = np.concatenate(versions)
        self.digests = np.concatenate(digests)


class Extras:
    """Collects rows of the store whose keys the topic does not have."""

    def __init__(self) -> None:
        self._keys: list[pa.Array] = [pa.array([], pa.binary())]
        self._hashes: list[Numbers] = [np.zeros(0, np.uint64)]
        self._versions: list[Stamps] = [np.zeros(0, STAMP)]

    def add(self, keys: Sequence[bytes], hashes: Numbers, versions: Stamps) -> None:
        if keys:
            self._keys.append(pa.array(keys, pa.binary()))
            self._hashes.append(hashes)
            self._versions.append(versions)

    def all(self) -> "OnlyStored":
        """Each key once, though the scan of a store may return one twice."""
        keys, hashes = pa.concat_arrays(self._keys), np.concatenate(self._hashes)
        hashes, first = np.unique(hashes, return_index=True)
        return OnlyStored(keys.take(pa.array(first)), hashes, np.concatenate(self._versions)[first])


@dataclass(frozen=True)
class OnlyStored:
    keys: pa.Array
    hashes: Numbers
    versions: Stamps


class KeysByIndex:
    """Collects keys that come in any order, each for an index."""

    def __init__(self, count: int) -> None:
        self._have = np.zeros(count, bool)
        self._keys: list[pa.Array] = [pa.array([], pa.binary())]
        self._places: list[npt.NDArray[np.intp]] = [np.zeros(0, np.intp)]

    def add(self, keys: Sequence[bytes], indexes: Indexes, places: Indexes) -> None:
        """Adds the keys at `indexes` for `places`; the first key for a place is kept."""
        new = ~self._have[places]
        places, first = np.unique(places[new], return_index=True)
        self._have[places] = True
        self._keys.append(pa.array([keys[index] for index in indexes[new][first].tolist()], pa.binary()))
        self._places.append(places)

    def all(self) -> tuple[Flags, pa.Array]:
        """Which places have a key, and these keys in the order of their places."""
        order = np.argsort(np.concatenate(self._places))
        return self._have, pc.take(pa.concat_arrays(self._keys), pa.array(order))


def kind_of(
    said: Mapping[Stamp, int],
    newest: Stamp,
    still_living: bool,
    version: Stamp,
    digest: int,
    *,
    counted: bool,
    unwritable: bool,
) -> str:
    """The kind of the difference. Empty if the row in the store matches a record that is at least as new as the newest
    one before the store was read.

    `said`: stamp -> digest of the records that may be the row. `newest`: the newest one before the store was read.
    `still_living`: the newest record of all is not a tombstone. `version` and `digest`: the store's. `counted`: the
    topic's versions come from offsets, so no record can have a version above the newest. With versions from a header or
    a column one may: compaction keeps the last record, which may have an older version.
    """
    if counted and version not in said:
        version = (version[0], 0)  # as those of the topic: no two records have the same one
    if digest == 0:
        if newest == NONE or said[newest] == 0 or not still_living:
            return ""
        if version > newest:
            return "" if version in said else "missing" if counted else "newer"
        return "missing"
    if said.get(version) == digest and version >= newest:
        return ""
    if newest == NONE:
        return "foreign" if version == NONE else "unwritable" if unwritable else "extra"
    is_deleted = said[newest] == 0
    if version == NONE:
        return "foreign" if is_deleted else "older"
    if version > newest and version not in said and not counted:
        return "newer"
    if is_deleted or said.get(version) == 0:
        return "extra"
    return "older" if version < newest else "altered"
