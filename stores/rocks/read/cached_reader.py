"""A reader with a cache in front of its tables, which forgets what the change feed names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stores.freshness import ViewWrapper
from stores.protocol import KeyKind
from stores.rocks.changes import EVERYTHING, Changes
from stores.rocks.read.kept_answers import KeptAnswers
from stores.rocks.read.reader import RocksReader, RocksSnapshot
from stores.table import Found, Offsets, Seq


class CachedReader:
    """Answers as its reader does. It pays off if the same keys are asked again and again: see docs/adr/0012."""

    def __init__(self, reader: RocksReader, *, most: int = 20_000) -> None:
        """`most`: how many answers are kept for each table."""
        self._reader = reader
        self._most = most
        self._kept: dict[str, KeptAnswers] = {}
        self._seen: Seq | None = None

    def snapshot(self) -> "CachedSnapshot":
        snapshot = self._reader.snapshot()
        self._forget(EVERYTHING if self._seen is None else snapshot.changes_since(self._seen))
        self._seen = snapshot.seq
        return CachedSnapshot(snapshot, self._kept_of)

    def close(self) -> None:
        self._reader.close()

    def _kept_of(self, table: str) -> KeptAnswers:
        return self._kept.setdefault(table, KeptAnswers(self._most))

    def _forget(self, changes: Changes) -> None:
        if changes is EVERYTHING:
            for kept in self._kept.values():
                kept.forget_all()
            return
        for name, keys in changes.items():
            kept = self._kept_of(name)
            # The answer for an address may change with any network that contains it.
            if keys is EVERYTHING or (keys and self._reader.key_kind(name) is KeyKind.CIDR):
                kept.forget_all()
            else:
                kept.forget(keys)


@dataclass(frozen=True, slots=True)
class CachedSnapshot:
    snapshot: RocksSnapshot
    kept_of: Callable[[str], KeptAnswers]

    @property
    def seq(self) -> Seq:
        return self.snapshot.seq

    def table(self, name: str) -> "CachedTable":
        return CachedTable(self.snapshot.table(name), self.kept_of(name), self.snapshot.require_current)

    def changes_since(self, seq: Seq) -> Changes:
        return self.snapshot.changes_since(seq)


@dataclass(frozen=True)
class CachedTable(ViewWrapper):
    """Look-ups with a time or a pin are not cached: there are too many different ones."""

    kept: KeptAnswers
    require_current: Callable[[], object]
    """Raises if the view would refuse: cached answers belong to the newest snapshot."""

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,
    ) -> Found:
        if as_of is not None or pin is not None:
            return self.view.lookup(keys, columns, as_of=as_of, pin=pin)
        self.require_current()
        return self.kept.find(self.view, keys, columns)
