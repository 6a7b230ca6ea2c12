"""Fills the disk under an export. A program of its own, run inside a mount namespace:

unshare -rm python -m tests.chaos.stores.export_disk_full DIRECTORY
"""

import os
import sys
import tempfile
from pathlib import Path

from stores.errors import Retryable
from stores.snapshots import open_snapshot
from tests.chaos.stores.exports import export, make_store
from tests.support.small_disk import fill, mount


def main(disk: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        store = Path(elsewhere) / "store"
        make_store(store)
        first = export(store, disk / "snapshots")
        versions = _versions(first.path)
        size = sum(path.stat().st_size for path in first.path.iterdir())
        # From no room at all to nearly enough of it.
        for room in range(0, size, max(4096, size // 12)):
            _fill(disk / "ballast", room)
            try:
                export(store, disk / "snapshots")
            except Retryable as error:
                assert "disk is full" in str(error), error
            else:
                raise AssertionError(f"{room} bytes were enough")
            assert [path.name for path in first.path.parent.iterdir()] == [first.path.name]
            assert _versions(first.path) == versions
        (disk / "ballast").unlink()
        assert _versions(export(store, disk / "snapshots").path) == versions


def _versions(path: Path) -> int:
    return sum(len(batch) for batch in open_snapshot(path).versions())


def _fill(ballast: Path, room: int) -> None:
    fill(ballast)
    os.truncate(ballast, max(0, ballast.stat().st_size - room))


if __name__ == "__main__":
    mount(Path(sys.argv[1]), "4m")
    main(Path(sys.argv[1]))
    sys.stdout.write("held")
