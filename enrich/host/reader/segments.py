"""A reader's access to the segments of a store: they answer if they exist and are as new as the store."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from enrich.base.errors import CorruptState, Retryable
from enrich.host.mirror.compiled_code import keep_compiled_code
from stores.protocol import TableSpec

if TYPE_CHECKING:
    from stores.segments import SegmentsReader, SegmentsSnapshot


class SegmentsHold:
    """For one thread. Opens the segments once they exist, and closes them when they cannot be used."""

    def __init__(self, directory: Path, specs: Mapping[str, TableSpec], state_dir: str) -> None:
        self._directory = directory
        self._specs = dict(specs)
        self._state_dir = state_dir
        self._reader: SegmentsReader | None = None

    def newest(self) -> "SegmentsSnapshot | None":
        """None if there are no segments, or they cannot be read. The store has everything that they have."""
        try:
            return self._open().snapshot()
        except (Retryable, CorruptState):
            # Not there yet, of an earlier store, or damaged. The agent notices damage and repairs it.
            self.close()
            return None

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> "SegmentsReader":
        if self._reader is None:
            if not self._specs or not self._directory.is_dir():
                raise Retryable("there are no segments")
            keep_compiled_code(self._state_dir)
            from stores.segments import SegmentsReader

            self._reader = SegmentsReader(self._directory, self._specs)
        return self._reader
