"""Finds the rows that differ: sums by bucket first, then the rows of the buckets that differ, then another look at each
suspect, since topic and store go on while they are compared."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stores.external import VersionedStore
from sync_service.reconcile.digests import (
    BUCKETS,
    Flags,
    Rows,
    bucket_sums,
    buckets_of,
    digests_of,
    empty,
    hashes_of,
    newest,
)
from sync_service.reconcile.topic import TopicReading

_FOLDED = 500_000
# How long a route may need from a record's arrival to its row.
_SETTLING_S = 1.0
_LOOKS = 2


@dataclass(frozen=True)
class Difference:
    """A key whose row in the store is not what the topic says."""

    key: bytes
    kind: str
    """missing, extra, older, newer (than any record of the topic), or altered: the right version, other content."""
    topic_version: int | None
    store_version: int | None


@dataclass
class Suspect:
    """A key that looked different once."""

    key: bytes
    versions: dict[int, int] = field(default_factory=dict)
    """Version -> digest (0: deleted), of every record that could be its row."""
    newest: int | None = None
    stored: int | None = None
    """The version in the store, -1 for a row without; None: it was not there."""


class Comparison:
    """Of one topic and one store, up to the ends that the topic had when it began."""

    def __init__(
        self,
        reading: TopicReading,
        store: VersionedStore,
        ends: Callable[[], Mapping[int, int]],
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._reading = reading
        self._store = store
        self._ends = ends
        self._sleep = sleep
        self.rows = 0
        """Living rows that the store should have."""
        self.expected = empty()
        """The newest row of every key in the topic, deleted ones too; sorted by hash."""
        self.largest_version = -1
        """That the store has."""

    def differences(self, ends: Mapping[int, int]) -> list[Difference]:
        """Of rows and versions. The route may be at work meanwhile."""
        expected = self._read_topic(ends)
        differing = self._differing(expected, by_version=True)
        return self._confirmed(self._suspects(expected, differing, ends), ends) if differing.any() else []

    def of_content(self, ends: Mapping[int, int]) -> list[Difference]:
        """Of the rows alone, while the route stands still: its versions are about to be replaced."""
        expected = self._read_topic(ends)
        differing = self._differing(expected, by_version=False)
        found = []
        for suspect in self._suspects(expected, differing, ends, by_version=False) if differing.any() else []:
            gone = suspect.newest is None or suspect.versions[suspect.newest] == 0
            kind = "extra" if gone else "missing" if suspect.stored is None else "altered"
            stored = None if suspect.stored == -1 else suspect.stored
            found.append(Difference(suspect.key, kind, suspect.newest, stored))
        return found

    def _differing(self, expected: Rows, *, by_version: bool) -> Flags:
        living = expected.where(expected.living)
        versions = living.versions if by_version else np.zeros_like(living.versions)
        sums: Flags = bucket_sums(living.hashes, versions, living.digests) != self._store_sums(by_version=by_version)
        return sums

    def _read_topic(self, ends: Mapping[int, int]) -> Rows:
        self.expected = self._fold(ends)
        self.rows = int(self.expected.living.sum())
        return self.expected

    def _fold(self, ends: Mapping[int, int]) -> Rows:
        parts, pending = [empty()], 0
        for part in self._reading.parts({}, ends):
            parts.append(part.compared)
            pending += len(part.compared)
            if pending >= _FOLDED:
                parts, pending = [newest(parts)], 0
        return newest(parts)

    def _store_sums(self, *, by_version: bool) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        sums = np.zeros(BUCKETS, np.uint64)
        for stored in self._store.scan():
            versions = _numbers(stored.versions)
            self.largest_version = max(self.largest_version, int(versions.max(initial=-1)))
            compared = versions if by_version else np.zeros_like(versions)
            sums += bucket_sums(hashes_of(stored.keys), compared, digests_of(stored.texts))
        return sums

    def _suspects(
        self, expected: Rows, differing: Flags, ends: Mapping[int, int], *, by_version: bool = True
    ) -> list[Suspect]:
        expected = expected.where(differing[buckets_of(expected.hashes)])
        right = {
            int(key): (int(version), int(digest))
            for key, version, digest in zip(expected.hashes, expected.versions, expected.digests, strict=True)
        }
        suspects: dict[int, Suspect] = {}
        seen: set[int] = set()
        for stored in self._store.scan():
            hashes, digests = hashes_of(stored.keys), digests_of(stored.texts)
            for index in np.flatnonzero(differing[buckets_of(hashes)]).tolist():
                key = int(hashes[index])
                seen.add(key)
                version, digest = right.get(key, (None, 0))
                if digest != int(digests[index]) or (by_version and version != stored.versions[index]):
                    number = stored.versions[index]
                    suspects[key] = Suspect(stored.keys[index], stored=-1 if number is None else number)
        missing = {int(key) for key, living in zip(expected.hashes, expected.living, strict=True) if living} - seen
        if missing or suspects:
            self._read_again(suspects, missing, ends)
        return list(suspects.values())

    def _read_again(self, suspects: dict[int, Suspect], missing: set[int], ends: Mapping[int, int]) -> None:
        """The keys of the missing rows, and every version of all suspects, since only hashes were kept."""
        wanted = np.fromiter({*suspects, *missing}, np.uint64)
        by_key: dict[int, list[Rows]] = {}
        for part in self._reading.parts({}, ends):
            for index in np.flatnonzero(np.isin(part.compared.hashes, wanted)).tolist():
                key = int(part.compared.hashes[index])
                suspects.setdefault(key, Suspect(part.keys[index]))
                by_key.setdefault(key, []).append(part.compared.where(np.array([index])))
        for key, rows in by_key.items():
            last = newest(rows)
            suspects[key].newest = int(last.versions[0])
            suspects[key].versions[int(last.versions[0])] = int(last.digests[0])

    def _confirmed(self, suspects: Sequence[Suspect], ends: Mapping[int, int]) -> list[Difference]:
        """Only what is still different after the route had time to write what came meanwhile."""
        found: list[Difference] = []
        for look in range(_LOOKS):
            ends = self._follow(suspects, ends)
            newest_then = [suspect.newest for suspect in suspects]
            if look:
                self._sleep(_SETTLING_S)
            stored = []
            for start in range(0, len(suspects), 1_000):
                part = self._store.fetch([suspect.key for suspect in suspects[start : start + 1_000]])
                stored += list(zip(part.versions, digests_of(part.texts).tolist(), part.texts, strict=True))
            ends = self._follow(suspects, ends)
            found, again = [], []
            for suspect, then, (version, digest, texts) in zip(suspects, newest_then, stored, strict=True):
                difference = _difference(suspect, then, version if texts is not None else None, digest, version)
                if difference is not None:
                    found.append(difference)
                    again.append(suspect)
            suspects = again
            if not suspects:
                break
        return found

    def _follow(self, suspects: Sequence[Suspect], since: Mapping[int, int]) -> Mapping[int, int]:
        """Reads what came since, and returns how far."""
        now = self._ends()
        if dict(now) == dict(since):
            return now
        by_key = {suspect.key: suspect for suspect in suspects}
        for part in self._reading.parts(since, now):
            versions, digests = part.compared.versions.tolist(), part.compared.digests.tolist()
            for key, version, digest in zip(part.keys, versions, digests, strict=True):
                suspect = by_key.get(key)
                if suspect is not None:
                    suspect.versions.setdefault(version, digest)
                    suspect.newest = max(version, suspect.newest if suspect.newest is not None else -1)
        return now


def _difference(
    suspect: Suspect, newest_then: int | None, living: int | None, digest: int, stored: int | None
) -> Difference | None:
    """None when the store has what some record says, and no older one than was there before it was asked."""
    if digest == 0:  # nothing living in the store
        expects_row = newest_then is not None and suspect.versions.get(newest_then) != 0
        still = suspect.newest is not None and suspect.versions.get(suspect.newest) != 0
        return Difference(suspect.key, "missing", newest_then, stored) if expects_row and still else None
    version = -1 if living is None else living
    if newest_then is None or (suspect.versions.get(newest_then) == 0 and version not in suspect.versions):
        return Difference(suspect.key, "extra", newest_then, living)
    if version in suspect.versions and version >= newest_then:
        if suspect.versions[version] == digest:
            return None
        return Difference(suspect.key, "altered" if suspect.versions[version] else "extra", version, living)
    return Difference(suspect.key, "older" if version < newest_then else "newer", newest_then, living)


def _numbers(versions: Sequence[int | None]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([-1 if version is None else version for version in versions], np.int64)
