"""The segments as an engine under contract: beside a store of rows, as an agent keeps them."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa

from stores.protocol import Clock, Publication, Reader, TableSpec, TableUpdate
from stores.rocks import RocksStore
from stores.rocks.write.incoming import incoming
from stores.segments import Change, SegmentsReader, SegmentsWriter, Tiers
from tests.support.stores.directories import fast_directory

NO_MERGES = Tiers(fan_in=1_000, base_share=1e9)


class _Mirrored:
    """RocksDB as the durable truth and segments as its mirror, as an agent keeps them."""

    def __init__(
        self, rocks: RocksStore, segments: SegmentsWriter, specs: Mapping[str, TableSpec], clock: Clock
    ) -> None:
        self._rocks = rocks
        self._segments = segments
        self._specs = specs
        self._clock = clock

    def publish(self, updates: Mapping[str, TableUpdate]) -> Publication:
        came = {
            name: incoming(name, self._specs[name], update.versions, before.positions, self._clock.now_ms()).versions
            for name, update in updates.items()
            if (before := self._rocks.tables.get(name)) is not None
        }
        publication = self._rocks.publish(updates)
        self._mirror(publication, came)
        return publication

    def remove_expired(self) -> Publication:
        publication = self._rocks.remove_expired()
        self._mirror(publication, dict.fromkeys(self._specs))
        return publication

    def _mirror(self, publication: Publication, came: Mapping[str, pa.RecordBatch | None]) -> None:
        changes = {}
        for name, versions in came.items():
            state = self._rocks.tables[name]
            rows = None if versions is None else self._specs[name].decoder.decode(versions.column("value")).rows
            through, buried = state.complete_through, state.buried
            changes[name] = Change(state.positions, state.floors, through, versions, rows, buried=buried)
        self._segments.publish(publication.seq, changes)
        while self._segments.merge():
            pass


class SegmentsEngine:
    def __init__(
        self, directory: Path, tables: Mapping[str, TableSpec], clock: Clock, held: ExitStack, tiers: Tiers
    ) -> None:
        self._directory = directory / "segments"
        self._tables = tables
        rocks = RocksStore(directory / "rows", tables, clock)
        held.callback(rocks.close)
        segments = SegmentsWriter(self._directory, tables, rocks.seq, {}, clock, tiers=tiers)
        self.writer = _Mirrored(rocks, segments, tables, clock)

    def open_reader(self) -> Reader:
        return SegmentsReader(self._directory, self._tables)


@contextmanager
def open_segments(tables: Mapping[str, TableSpec], clock: Clock, tiers: Tiers = NO_MERGES) -> Iterator[SegmentsEngine]:
    with fast_directory() as directory, ExitStack() as held:
        yield SegmentsEngine(directory, tables, clock, held, tiers)


def open_merged_segments(tables: Mapping[str, TableSpec], clock: Clock) -> AbstractContextManager[SegmentsEngine]:
    return open_segments(tables, clock, Tiers(fan_in=2, smallest=1, base_share=1, base_at_least=4))
