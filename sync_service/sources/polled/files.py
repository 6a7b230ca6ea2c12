"""A file as a source: read whole whenever it may have changed, by its metadata."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from enrich.base.errors import ConfigError
from stores.clock import SystemClock
from stores.external.files.reading import FileReader
from sync_service.sources.polled.source import Answer, Extent, Progress, Reading


class FileSource:
    readings_until_deleted = 1
    may_rest = True
    hints = None

    def __init__(self, reader: FileReader, key: tuple[str, ...], work: Path) -> None:
        self.key = key
        self._reader = reader
        self._work = work

    @contextmanager
    def ask(self, progress: Progress, columns: Sequence[str] | None) -> Iterator[Answer | None]:
        look = self._reader.look()
        if progress.whole_at_ms is not None and look.known and progress.position == look.known:
            yield None
            return
        started = SystemClock().now_ms()
        with self._reader.copied(self._work) as reading:
            names: list[str] = reading.schema.names
            for name in self.key:
                if name not in names:
                    raise ConfigError(
                        f"the key column {name} is not among the columns that are read: {', '.join(names)}",
                        where=self._reader.where,
                        next_step=_how_to_fix(names),
                    )
            values = tuple(name for name in names if columns is None or name in columns)
            rows = Reading(Extent.whole, _selected(reading.batches(), values, self.key), values)
            yield Answer([rows], Progress(whole_at_ms=started, position=look.known))


def _how_to_fix(names: list[str]) -> str:
    if len(names) == 1 and ";" in names[0]:
        return "its header has `;` instead of commas: write the file with commas"
    return "correct `key` of the source, or add the column to the file and to `columns`"


def _selected(
    batches: Iterator[pa.RecordBatch], values: tuple[str, ...], key: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    wanted = list(dict.fromkeys((*key, *values)))
    for batch in batches:
        yield batch.select(wanted)
