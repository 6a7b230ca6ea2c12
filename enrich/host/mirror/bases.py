"""Builds the base segment of a table from the rows of the store, as any reader sees them."""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from enrich.config import Pipeline
from enrich.config.sections.host.memory_shares import memory_shares
from enrich.host.ipc.store_paths import StorePaths
from enrich.host.memory_use import reader_sizes
from enrich.host.tables import all_tables
from stores.protocol import TableSpec
from stores.rocks import RocksReader, Sizes

if TYPE_CHECKING:
    from stores.segments import BaseFiles, Written


@dataclass(frozen=True)
class BaseOrder:
    """Which table to build, where, and in how many bytes at most."""

    table: str
    files: "BaseFiles"
    room: int | None


@dataclass(frozen=True)
class TooLarge:
    """The result if the base would take more bytes than allowed."""

    at_least: int


class MakeBase(Protocol):
    """How a base is made: `make_base` in this process, or in another one."""

    def __call__(self, order: BaseOrder, should_stop: Callable[[], bool]) -> "Written | TooLarge":
        """Raises BadRecord if a row cannot be decoded any more, Retryable if it may succeed later."""


@dataclass(frozen=True)
class BaseTask:
    """Makes a base in a process of its own: see `LoadProcesses.do`."""

    order: BaseOrder

    def __call__(self, pipeline: Pipeline, paths: StorePaths) -> "Written | TooLarge":
        specs = {name: table.spec for name, table in all_tables(pipeline).items()}
        return make_base(paths.rows, specs, reader_sizes(memory_shares(pipeline.memory)), self.order)


@dataclass(frozen=True)
class CompileTask:
    """Compiles the loops over rows, once on each host. It takes a core twenty seconds, so it runs at low priority."""

    def __call__(self, pipeline: Pipeline, paths: StorePaths) -> None:  # noqa: ARG002 - as tasks are called
        from stores.segments import compile_loops

        os.nice(10)
        compile_loops()


def make_base(rows: Path, specs: Mapping[str, TableSpec], sizes: Sizes, order: BaseOrder) -> "Written | TooLarge":
    """Reads the newest publication of the store. It contains everything that was published before the call."""
    from stores.segments import Base

    with closing(RocksReader(rows, specs, sizes=sizes)) as reader:
        table = reader.snapshot().table(order.table)
        with closing(Base(order.files, specs[order.table])) as base:
            for versions in table.whole().as_stored():
                base.add(versions)
                if order.room is not None and base.gathered_bytes > order.room:
                    return TooLarge(base.gathered_bytes)
            written = base.finish(table.floors)
    if order.room is not None and written.stamp.size > order.room:
        return TooLarge(written.stamp.size)
    return written
