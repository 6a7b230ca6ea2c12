"""The engines under contract. A new engine is one entry here; the suite runs over all of them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from stores.protocol import Clock, Reader, TableSpec, Writer
from stores.rocks import RocksReader, RocksStore
from tests.contract.stores.segments_engine import open_merged_segments, open_segments
from tests.support.stores.directories import fast_directory
from tests.support.stores.memory_store import MemoryStore


class Engine(Protocol):
    """A writer and a fresh reader of the same store."""

    @property
    def writer(self) -> Writer: ...

    def open_reader(self) -> Reader: ...


class _Memory:
    def __init__(self, tables: Mapping[str, TableSpec], clock: Clock) -> None:
        self.writer = MemoryStore(tables, clock)

    def open_reader(self) -> Reader:
        return self.writer.reader()


OpenEngine = Callable[[Mapping[str, TableSpec], Clock], AbstractContextManager[Engine]]


@contextmanager
def open_memory(tables: Mapping[str, TableSpec], clock: Clock) -> Iterator[Engine]:
    yield _Memory(tables, clock)


class _Rocks:
    def __init__(self, directory: Path, tables: Mapping[str, TableSpec], clock: Clock, held: ExitStack) -> None:
        self._directory = directory
        self._tables = tables
        self._held = held
        self.writer = RocksStore(directory, tables, clock)
        held.callback(self.writer.close)

    def open_reader(self) -> Reader:
        reader = RocksReader(self._directory, self._tables)
        self._held.callback(reader.close)
        return reader


@contextmanager
def open_rocks(tables: Mapping[str, TableSpec], clock: Clock) -> Iterator[Engine]:
    with fast_directory() as directory, ExitStack() as held:
        yield _Rocks(directory / "store", tables, clock, held)


ENGINES: Mapping[str, OpenEngine] = {
    "memory": open_memory,
    "rocks": open_rocks,
    "segments": open_segments,
    "segments merged": open_merged_segments,
}
