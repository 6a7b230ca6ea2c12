"""Deletes a stack, and nothing else."""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from enrich.base.errors import ConfigError
from enrich.dev.state import LOCK_FILE, STATE_FILE, StackFolder


def check_deletable(folder: StackFolder, servers: Iterable[str]) -> None:
    """Raises ConfigError unless the directory is a stack and contains nothing else."""
    if not folder.is_stack():
        raise ConfigError("the directory holds files, but no stack: nothing was deleted", where=str(folder.path))
    # A stack of another version may have other servers; each has a run file.
    ours = {STATE_FILE, LOCK_FILE, folder.logs.name, "run", *servers, *folder.run_files()}
    names = sorted(entry.name for entry in folder.path.iterdir())
    foreign = [name for name in names if name not in ours and not name.startswith(f".{STATE_FILE}.")]
    if foreign:
        raise ConfigError(
            f"the directory of the stack also holds {', '.join(foreign[:5])}: nothing was deleted",
            where=str(folder.path),
            next_step="move these elsewhere, then try again",
        )


def describe(folder: StackFolder) -> str:
    """What would be deleted, for people: the servers' data and their sizes."""
    sizes = {name: _size(folder.server(name)) for name in folder.run_files()}
    return ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items()) or "no server has run in it"


def delete(folder: StackFolder) -> None:
    """Deletes the directory. The state file must come last: if this is interrupted, it can be repeated. The caller must
    hold the stack's lock."""
    for entry in folder.path.iterdir():
        if entry.name not in (STATE_FILE, LOCK_FILE):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    (folder.path / STATE_FILE).unlink(missing_ok=True)
    (folder.path / LOCK_FILE).unlink(missing_ok=True)
    with suppress(OSError):  # it may be a mount point, or somebody has just put something into it
        folder.path.rmdir()


def _size(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        with suppress(OSError):  # servers may delete files in the meantime
            total += file.lstat().st_blocks * 512
    return total
