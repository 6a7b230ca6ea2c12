"""The engines under contract. A new engine is one entry here; the suite runs over all of them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from stores.memory import MemoryStore
from stores.protocol import Clock, Reader, TableSpec, Writer


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


ENGINES: Mapping[str, OpenEngine] = {"memory": open_memory}
