"""Fills the disk under a store. A program of its own, run inside a mount namespace:

    unshare -rm python -m tests.chaos.stores.disk_full DIRECTORY

It asserts by itself, and ends with "held" when everything held.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from stores.clock import SystemClock
from stores.errors import Retryable
from stores.rocks import RocksReader, RocksStore
from tests.chaos.stores.life import SIZES, SPECS, assert_whole, batch, end_of, open_reader
from tests.support.small_disk import fill, mount


class FullDisk:
    def __init__(self, disk: Path) -> None:
        self._disk = disk
        self._directory = disk / "store"
        self._store = self._open()
        self._reader = open_reader(self._directory)
        self._end = 0
        """Everything below was acknowledged."""

    def run(self) -> None:
        for work in (self._publish, self._load):
            for _ in range(10):
                self._publish()
            self._until_refused(work)
            self._until_refused(self._publish)
            for reader in self._readers():
                self._assert_whole(reader)
            (self._disk / "ballast").unlink()
            self._publish()
            for reader in self._readers():
                self._assert_whole(reader)
                reader.verify()
        self._load()
        self._until_refused(self._reopen)
        (self._disk / "ballast").unlink()
        self._reopen()
        self._publish()
        self._assert_whole(self._reader)
        self._reader.close()
        self._store.close()

    def _open(self) -> RocksStore:
        return RocksStore(self._directory, SPECS, SystemClock(), sizes=SIZES)

    def _publish(self) -> None:
        self._store.publish({name: batch(self._end, self._end + 50) for name in SPECS})
        self._end += 50

    def _load(self) -> None:
        bulk = self._store.bulk("right", budget=20_000)
        for start in range(0, self._end, 200):
            bulk.add(batch(start, min(start + 200, self._end)).versions)
        bulk.finish({0: self._end})

    def _reopen(self) -> None:
        self._store.close()
        self._store = self._open()

    def _readers(self) -> list[RocksReader]:
        """The one that was there all the time, and a new one if it can be had."""
        readers = [self._reader]
        with suppress(Retryable):
            readers.append(open_reader(self._directory))
        return readers

    def _assert_whole(self, reader: RocksReader) -> None:
        snapshot = reader.snapshot()
        assert snapshot.seq == self._store.seq
        for name in SPECS:
            assert end_of(snapshot.table(name)) == self._end
            assert_whole(snapshot.table(name))

    def _until_refused(self, work: Callable[[], None]) -> None:
        for _ in range(2_000):
            fill(self._disk / "ballast")
            try:
                work()
            except Retryable as error:
                assert "disk is full" in str(error), error
                return
        raise AssertionError(f"{work} never met the full disk")


if __name__ == "__main__":
    mount(Path(sys.argv[1]), "12m")
    FullDisk(Path(sys.argv[1])).run()
    sys.stdout.write("held")
