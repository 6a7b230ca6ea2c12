"""Where the compiled loops of segments are kept, so that the agent and all readers of a host share them."""

import os
import stat
from importlib.util import find_spec
from pathlib import Path

_VARIABLE = "NUMBA_CACHE_DIR"
_ROOMS = ("loops", "read")
"""The packages of stores/segments that have compiled loops."""


def keep_compiled_code(state_dir: str) -> None:
    """Sets it for this process and its children. Must be called before the engine is imported for the first time.

    Beside the source if that is writable. Otherwise, as in an image, in the state directory, which agent and readers
    share, whatever their home directories are.
    """
    if _VARIABLE in os.environ or _can_write_beside_source():
        return
    directory = Path(state_dir) / ".compiled"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return  # without any writable directory each process compiles for itself
    found = directory.lstat()
    # Loading compiled code means running it: never use a directory that another user may have written to.
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
        os.environ[_VARIABLE] = str(directory)


def _can_write_beside_source() -> bool:
    spec = find_spec("stores")
    return spec is not None and all(
        os.access(Path(path, "segments", room), os.W_OK)
        for path in spec.submodule_search_locations or ()
        for room in _ROOMS
    )
