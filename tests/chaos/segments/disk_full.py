"""Fills the disk under segments. A program of its own, run inside a mount namespace:

    unshare -rm python -m tests.chaos.segments.disk_full DIRECTORY

It asserts by itself, and ends with "held" when everything held.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from stores.errors import Retryable
from tests.chaos.segments.life import SPECS, assert_right, build, change, end_of, open_reader, open_writer
from tests.support.small_disk import fill, mount


class FullDisk:
    def __init__(self, disk: Path) -> None:
        self._disk = disk
        self._directory = disk / "segments"
        self._directory.mkdir()
        self._writer, self._end = open_writer(self._directory)
        self._reader = open_reader(self._directory)

    def run(self) -> None:
        for work in (self._publish, self._merge, self._build):
            for _ in range(10):
                self._publish()
            self._until_refused(work)
            self._assert_right()
            (self._disk / "ballast").unlink()
            work()
            self._publish()
            self._assert_right()

    def _publish(self) -> None:
        end = self._end + 50
        seq = self._writer.seq
        self._writer.publish(seq._replace(counter=seq.counter + 1), {name: change(self._end, end) for name in SPECS})
        self._end = end

    def _merge(self) -> None:
        while self._writer.merge():
            pass

    def _build(self) -> None:
        build(self._writer, "left", self._end)

    def _assert_right(self) -> None:
        for reader in (self._reader, open_reader(self._directory)):
            snapshot = reader.snapshot()
            assert snapshot.seq == self._writer.seq
            for name in SPECS:
                assert end_of(snapshot.table(name)) == self._end
                assert_right(snapshot.table(name))

    def _until_refused(self, work: Callable[[], None]) -> None:
        for _ in range(200):
            self._publish()
            fill(self._disk / "ballast")
            try:
                work()
            except Retryable as error:
                assert "disk is full" in str(error), error
                return
            (self._disk / "ballast").unlink()
        raise AssertionError(f"{work} never met the full disk")


if __name__ == "__main__":
    mount(Path(sys.argv[1]), "24m")
    FullDisk(Path(sys.argv[1])).run()
    sys.stdout.write("held")
