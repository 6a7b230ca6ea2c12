"""The servers' logs: rotated, quoted in errors, shown and followed."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_ROTATE_AT = 16 << 20
_TAIL = 256 << 10


def rotate(log: Path) -> None:
    """Renames a large log to `*.log.1`. Called before a start."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _ROTATE_AT:
        log.replace(log.with_name(f"{log.name}.1"))


def tail(log: Path, lines: int, start: int = 0) -> list[str]:
    """The last lines of a log, of the part from the byte `start` on."""
    if lines <= 0 or not log.exists():
        return []
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(start, size - _TAIL))
        return file.read().decode(errors="replace").splitlines()[-lines:]


class Mark:
    """A position in a log: the lines after it belong to one start."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._start = log.stat().st_size if log.exists() else 0

    def tail(self, lines: int) -> list[str]:
        return tail(self._log, lines, self._start)

    def quote(self, lines: int) -> str:
        """The last lines, indented, to append to a message; empty if nothing was logged."""
        return "".join(f"\n  | {line}" for line in self.tail(lines))


def follow(logs: Sequence[Path], sleep: Callable[[float], None] = time.sleep) -> Iterator[tuple[Path, str]]:
    """Lines added to these logs from now on, for ever. Logs that are created later or rotated are followed too."""
    positions = {log: log.stat().st_size if log.exists() else 0 for log in logs}
    while True:
        quiet = True
        for log in logs:
            if not log.exists():
                continue
            if log.stat().st_size < positions[log]:
                positions[log] = 0  # rotated or reset
            with log.open("rb") as file:
                file.seek(positions[log])
                added = file.read()
            whole = added[: added.rfind(b"\n") + 1]
            positions[log] += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                quiet = False
                yield log, line
        if quiet:
            sleep(0.1)
