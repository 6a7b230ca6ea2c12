"""The directories of snapshots: LOCATION/<pipeline>/<table>/<time>-<store>-<seq>, the newest has the last name.

A directory whose name begins with a dot is being written or removed. One rename turns it into a snapshot, or back.
"""

import os
import re
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from stores.errors import ConfigError, CorruptState
from stores.snapshots.files import file_errors
from stores.snapshots.manifest import Manifest
from stores.snapshots.snapshot import Snapshot, open_snapshot

_NAME = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[0-9a-f]{8}-\d+\.\d+")
_ABANDONED_S = 3600
"""If nobody has written to a directory for so long, its process is taken for dead. By time, since the process may be on
another host."""
CLOCKS_DIFFER_MS = 300_000
"""Clocks of hosts that are set differ by less."""


def newest_first(folder: Path) -> Iterator[Snapshot | CorruptState | ConfigError]:
    """The snapshots of a table by the times in their names; for one without a good manifest, the error."""
    for name in _names(folder):
        try:
            yield open_snapshot(folder / name)
        except (CorruptState, ConfigError) as error:
            yield error


def ahead_of(folder: Path, now_ms: int) -> list[Path]:
    """The snapshots, newest first, of clocks that were ahead of this host's, or are: their names tell no order."""
    latest = _time_text(now_ms + CLOCKS_DIFFER_MS)
    return [folder / name for name in _names(folder) if name > latest]


def remove_older(folder: Path, keep: int, *, own: Path | None = None, ahead: Collection[Path] = ()) -> list[Path]:
    """Removes all but the newest `keep` ones, those that are `ahead` not counted. Returns the removed paths.

    Removes neither `own`, which the caller has just written, nor what is `ahead`.
    """
    gone = []
    counted = [folder / name for name in _names(folder) if folder / name not in ahead]
    for path in counted[keep:]:
        if path == own:
            continue
        hidden = folder / f".{path.name}.{uuid.uuid4().hex[:8]}"
        with file_errors(path), suppress(FileNotFoundError):  # another export may remove it too
            path.rename(hidden)
            shutil.rmtree(hidden)
            gone.append(path)
    return gone


@contextmanager
def hidden_until_whole(folder: Path, name: str) -> Iterator[Path]:
    """A directory to write a snapshot into. It gets its name when the block ends well, and is removed otherwise."""
    work = folder / f".{name}.{uuid.uuid4().hex[:8]}"
    with file_errors(work):
        folder.mkdir(parents=True, exist_ok=True)
        work.mkdir()
        _sweep(folder, work)
    try:
        yield work
        with file_errors(folder / name):
            sync(work)
            work.rename(folder / name)
            sync(folder)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def name_of(manifest: Manifest) -> str:
    seq = manifest.seq
    return f"{_time_text(manifest.taken_at)}-{seq.store[:8]}-{seq.generation}.{seq.counter}"


def sync(directory: Path) -> None:
    """Returns once the names in a directory are on disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _time_text(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y%m%dT%H%M%S}.{at_ms % 1000:03}Z"


def _names(folder: Path) -> list[str]:
    with file_errors(folder), suppress(FileNotFoundError):
        return sorted((path.name for path in folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)
    return []


def _sweep(folder: Path, made_now: Path) -> None:
    """Removes directories that ended processes left half written or half removed. How old they are is told by the clock
    of their file system: by this host's, an hour ahead, an export of another host would seem to be abandoned."""
    now_s = made_now.stat().st_mtime
    for path in folder.iterdir():
        if path.name.startswith("."):
            with suppress(OSError):
                touched = max(one.stat().st_mtime for one in (path, *path.iterdir()))
                if now_s - touched > _ABANDONED_S:
                    shutil.rmtree(path, ignore_errors=True)
