"""Removes stores of earlier configurations and releases: each has a copy of all rows, and nobody else would."""

import logging
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from enrich.base.errors import ConfigError, EnrichError
from enrich.base.folders import files_of
from enrich.host.ipc.lock import StoreLock
from stores.rocks import RocksReader

_log = logging.getLogger("enrich.agent")

UNUSED_S = 14 * 86_400
"""Longer than most roll-backs take. If somebody comes back to it, its tables are loaded again."""
_FIRST_S, _EVERY_S = 60.0, 3_600.0
_STORE = re.compile("[0-9]+-[0-9a-f]{16}")
_GONE = ".gone-"


class OldStores:
    """For the agent's loop. What takes long is done in a thread."""

    def __init__(self, own: Path, clock_s: Callable[[], float] = time.monotonic) -> None:
        """`own`: the folder of the agent's store, beside which others are."""
        self._own = own
        self._clock_s = clock_s
        self._due_s = clock_s() + _FIRST_S

    def look(self) -> None:
        """Cheap: it does something once an hour."""
        if self._clock_s() < self._due_s:
            return
        self._due_s = self._clock_s() + _EVERY_S
        threading.Thread(target=self._remove, name="old stores", daemon=True).start()

    def _remove(self) -> None:
        for folder in remove_unused(self._own):
            _log.info("a store of another configuration is removed: nobody uses it", extra={"folder": str(folder)})


def remove_unused(own: Path) -> list[Path]:
    """Removes those beside `own` that nobody has used for long, and that have nothing in quarantine: of that the topic
    may have nothing any more. Returns them. What cannot be removed stays."""
    removed = []
    for folder in files_of(own.parent):
        with suppress(OSError):
            if folder.name.startswith(_GONE):
                shutil.rmtree(folder, ignore_errors=True)  # the agent that began it was killed
            elif folder != own and _STORE.fullmatch(folder.name) and _is_unused(folder) and _is_removed(folder):
                removed.append(folder)
    return removed


def _is_unused(folder: Path) -> bool:
    # An agent that ends says so in its log; of one that was killed the watermark tells.
    told_by = (folder, *folder.iterdir(), *folder.glob("rows/watermark"))
    used = max(path.stat().st_mtime for path in told_by)
    return time.time() - used > UNUSED_S


def _is_removed(folder: Path) -> bool:
    lock = StoreLock.try_take(folder / "lock")
    if lock is None:
        return False  # its agent lives
    try:
        if _has_quarantined(folder / "rows"):
            return False
        # At once: nobody finds half of it, and who comes meanwhile makes another one.
        gone = folder.with_name(f"{_GONE}{uuid.uuid4().hex}")
        folder.rename(gone)
    finally:
        lock.release()
    shutil.rmtree(gone, ignore_errors=True)
    return True


def _has_quarantined(rows: Path) -> bool:
    try:
        with closing(RocksReader(rows, {})) as reader:
            return reader.snapshot().quarantined > 0
    except ConfigError:
        return True  # of a newer release, which may come back
    except EnrichError:
        return False  # there are no rows, or they are damaged: an agent would make it anew
