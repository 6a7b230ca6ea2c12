"""Finds the rows that differ: compares sums by bucket, then the rows of the buckets that differ, then each suspect
once more, since topic and store change while they are compared.

Everything per row is done in arrays: if the store was emptied, every key is a suspect.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from stores.external import StoredRows, VersionedStore
from sync_service.reconcile.differences import KINDS, Differences
from sync_service.reconcile.digests import (
    BUCKETS,
    Expected,
    Flags,
    Folding,
    Indexes,
    Numbers,
    bucket_sums,
    buckets_of,
    digests_of,
    found_in,
    hashes_of,
)
from sync_service.reconcile.stamps import ABSENT, NONE, STAMP, Stamps, filled, has_version, stamps_of, without_releases
from sync_service.reconcile.suspects import Extras, KeysByIndex, Stored, Suspects, TopicBefore
from sync_service.reconcile.topic import TopicReading

_FETCHED = 2_000
_SUMMED = 50_000
# So few are checked once more: the route may have been slow.
_FEW = 1_000
_SHOWN_FOREIGN = 20


class Comparison:
    """Compares one topic with one store, up to the end offsets when it began."""

    def __init__(
        self,
        reading: TopicReading,
        store: VersionedStore,
        ends: Callable[[], Mapping[int, int]],
        settle: Callable[[Mapping[int, int]], object],
    ) -> None:
        """`settle` waits for the route to write what the topic has up to the given ends."""
        self._reading = reading
        self._store = store
        self._ends = ends
        self._settle = settle
        self.rows = 0
        """How many rows the store should have, without deleted ones."""
        self.unwritable = 0
        """Records of the topic that cannot become rows."""
        self.expected = Folding().expected()
        self.largest_version = -1
        """The largest version in the store."""
        self.foreign = 0
        """Rows in the store that the route did not write: only their keys look like the route's."""
        self.some_foreign: list[bytes] = []
        """The first keys of these."""

    def differences(self, ends: Mapping[int, int]) -> Differences:
        """Compares rows and versions. The route may run meanwhile."""
        differing = self._differing(ends, by_version=True)
        if not differing.any():
            return Differences.none()
        suspects = self._suspects(differing, ends)
        self.expected = Folding().expected()  # frees what may be as large as the suspects
        return self._confirmed(suspects, ends)

    def of_content(self, ends: Mapping[int, int]) -> Differences:
        """Compares rows without their versions, which are about to be replaced. The route is held meanwhile."""
        differing = self._differing(ends, by_version=False)
        if not differing.any():
            return Differences.none()
        suspects = self._suspects(differing, ends, by_version=False)
        gone, is_absent = suspects.digests == 0, suspects.scanned["version"] == ABSENT[0]
        cases = {
            "unwritable": gone & suspects.unwritable & ~has_version(suspects.newest),
            "extra": gone,
            "missing": is_absent,
        }
        kinds = np.select(list(cases.values()), [KINDS.index(kind) for kind in cases], KINDS.index("altered"))
        stored = suspects.scanned.copy()
        stored[is_absent] = NONE
        return Differences(suspects.keys, kinds.astype(np.uint8), suspects.newest, stored)

    def _differing(self, ends: Mapping[int, int], *, by_version: bool) -> Flags:
        self.expected = expected = self._fold(ends)
        living = np.flatnonzero(expected.living)
        self.rows = len(living)
        versions = expected.versions[living] if by_version else np.zeros(len(living), STAMP)
        wanted = np.zeros(BUCKETS, np.uint64)
        for start in range(0, len(living), _SUMMED):
            some = living[start : start + _SUMMED]
            wanted += bucket_sums(expected.hashes[some], versions[start : start + _SUMMED], expected.digests[some])
        sums: Flags = wanted != self._store_sums(by_version=by_version)
        return sums

    def _fold(self, ends: Mapping[int, int]) -> Expected:
        folding = Folding()
        self._reading.forget_unwritable()
        for part in self._reading.parts({}, ends):
            folding.add(part.compared)
        self.unwritable = self._reading.unwritable
        return folding.expected()

    def _store_sums(self, *, by_version: bool) -> Numbers:
        sums = np.zeros(BUCKETS, np.uint64)
        self.foreign, self.some_foreign = 0, []
        for stored in self._store.scan():
            self._reading.check()
            hashes, versions = hashes_of(stored.keys), stamps_of(stored.versions, stored.releases)
            self.largest_version = max(self.largest_version, int(versions["version"].max(initial=-1)))
            ours = self._ours(hashes, versions)
            if not ours.all():
                self._count_foreign(stored, np.flatnonzero(~ours).tolist())
            compared = self._as_compared(hashes, versions) if by_version else np.zeros_like(versions)
            sums += bucket_sums(hashes[ours], compared[ours], digests_of(stored.texts)[ours])
        return sums

    def _as_compared(self, hashes: Numbers, versions: Stamps) -> Stamps:
        """Without the releases of rows whose record has its version from its offset."""
        if not versions["release"].any() or not len(self.expected):
            return versions
        places, found = found_in(self.expected.hashes, hashes)
        return without_releases(versions, found & self.expected.counted[places])

    def _ours(self, hashes: Numbers, versions: Stamps) -> Flags:
        """Which rows are the route's. A row without a version is only if the topic has a row of that key."""
        places, found = found_in(self.expected.hashes, hashes)
        if len(self.expected):
            found &= self.expected.living[places]
        ours: Flags = found | has_version(versions)
        return ours

    def _count_foreign(self, stored: StoredRows, indexes: Sequence[int]) -> None:
        self.foreign += len(indexes)
        self.some_foreign += [stored.keys[index] for index in indexes[: _SHOWN_FOREIGN - len(self.some_foreign)]]

    def _suspects(self, differing: Flags, ends: Mapping[int, int], *, by_version: bool = True) -> Suspects:
        expected, extras = self.expected, Extras()
        wrong = differing[buckets_of(expected.hashes)] & expected.living  # until the store is found to have it
        scanned = filled(len(expected), ABSENT)
        for stored in self._store.scan():
            self._reading.check()
            hashes, versions = hashes_of(stored.keys), stamps_of(stored.versions, stored.releases)
            chosen = np.flatnonzero(differing[buckets_of(hashes)] & self._ours(hashes, versions))
            hashes, versions = hashes[chosen], versions[chosen]
            digests = digests_of([stored.texts[index] for index in chosen.tolist()])
            places, found = found_in(expected.hashes, hashes)
            at = places[found]
            same = expected.digests[at] == digests[found]
            if by_version:
                same &= expected.versions[at] == self._as_compared(hashes, versions)[found]
            wrong[at], scanned[at] = ~same, versions[found]
            alone = chosen[~found].tolist()
            extras.add([stored.keys[index] for index in alone], hashes[~found], versions[~found])
        suspected = np.flatnonzero(wrong)
        have, keys = self._keys_of(suspected, ends)
        unwritable = np.concatenate([np.zeros(0, np.uint64), *self._reading.unwritable_keys])
        return Suspects.gathered(expected, suspected[have], keys, scanned, extras, unwritable)

    def _keys_of(self, suspected: Indexes, ends: Mapping[int, int]) -> tuple[Flags, pa.Array]:
        """Reads the topic once more for the keys, since only hashes were kept."""
        keys = KeysByIndex(len(suspected))
        if len(suspected):
            wanted = self.expected.hashes[suspected]
            for some in self._reading.keys(ends):
                places, found = found_in(wanted, hashes_of(some))
                keys.add(some, np.flatnonzero(found), places[found])
        return keys.all()

    def _confirmed(self, suspects: Suspects, ends: Mapping[int, int]) -> Differences:
        """What still differs after the route had time to write what came meanwhile."""
        while True:
            few = len(suspects) <= _FEW
            ends = self._follow(suspects, ends)
            then = TopicBefore(suspects)
            self._settle(ends)
            stored = self._fetched(suspects)
            ends = self._follow(suspects, ends)
            verdicts = suspects.verdicts(then, stored)
            differing = np.flatnonzero(verdicts.kinds)
            if few or not len(differing) or len(differing) > _FEW:
                return verdicts.where(verdicts.kinds > 0).but(["foreign"])
            suspects = suspects.where(differing)

    def _fetched(self, suspects: Suspects) -> Stored:
        versions, digests = [np.zeros(0, STAMP)], [np.zeros(0, np.uint64)]
        for start in range(0, len(suspects), _FETCHED):
            self._reading.check()
            part = self._store.fetch(suspects.keys[start : start + _FETCHED].to_pylist())
            versions.append(stamps_of(part.versions, part.releases))
            digests.append(digests_of(part.texts))
        return Stored(versions, digests)

    def _follow(self, suspects: Suspects, since: Mapping[int, int]) -> Mapping[int, int]:
        """Reads what came since then, and returns the new end offsets."""
        now = self._ends()
        if dict(now) != dict(since):
            # All versions, not just the newest: the store was read in between and may have any of them.
            for part in self._reading.parts(since, now, every=True):
                suspects.follow(part)
        return now
