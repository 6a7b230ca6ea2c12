"""A worker's view of a store's segments: maps the files that the manifest lists, and never goes back."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from stores.answers import superseded_snapshot, unknown_table
from stores.clock import boot_id
from stores.errors import CorruptState, Retryable
from stores.protocol import KeyKind, TableSpec
from stores.segments.file import Written
from stores.segments.manifest import Manifest, ManifestParser, read_raw_manifest
from stores.segments.probes import LastProbes
from stores.segments.read.key_filter import KeyFilter
from stores.segments.read.networks import network_marks
from stores.segments.read.table import TableSegments
from stores.segments.read.view import SegmentsTable
from stores.segments.segment import Segment
from stores.table import Seq

_ATTEMPTS = 5


class SegmentsReader:
    """For one thread. Survives any change to the files, except the truncation of one that it is just reading."""

    def __init__(self, directory: Path, tables: Mapping[str, TableSpec]) -> None:
        """Raises Retryable while there are no segments, CorruptState for damaged ones."""
        self._directory = directory
        self._specs = dict(tables)
        self._boot = boot_id()
        self._parser = ManifestParser(directory, self._specs.keys())
        self._raw = b""
        self._manifest: Manifest | None = None
        self._segments: dict[str, Segment] = {}
        self._delta_filters = {name: KeyFilter() for name in tables}
        self._network_filters = {
            name: KeyFilter(network_marks) for name, spec in tables.items() if spec.key is KeyKind.CIDR
        }
        self._last = LastProbes()
        self._taken = 0
        self._take_newest()

    def snapshot(self) -> "SegmentsSnapshot":
        """The newest publication. The reader's earlier snapshots raise from now on."""
        self._taken += 1
        manifest = self._take_newest()
        return SegmentsSnapshot(self, self._taken, manifest)

    def close(self) -> None:
        self._taken += 1
        self._segments = {}

    def reads(self, name: str) -> bool:
        return name in self._specs

    def require_current(self, taken: int) -> None:
        if taken != self._taken:
            raise superseded_snapshot()

    def table(self, name: str, manifest: Manifest, taken: int) -> SegmentsTable:
        if name not in self._specs or name not in manifest.tables:
            raise unknown_table(name, list(self._specs))
        state = manifest.tables[name]
        if state.absent is not None:
            raise Retryable(f"table `{name}` has no segments now: {state.absent}", next_step="wait for its agent")
        segments = [self._segments[one.name] for one in state.segments]
        together = TableSegments(
            self._specs[name].columns, segments, self._delta_filters[name], self._network_filters.get(name)
        )
        return SegmentsTable(self._specs[name], state, together, lambda: self.require_current(taken), self._last)

    def segments(self, name: str, manifest: Manifest, taken: int) -> Sequence[Segment]:
        self.require_current(taken)
        return [self._segments[one.name] for one in _named(manifest, name)]

    def _take_newest(self) -> Manifest:
        """Maps the files of the newest manifest. If one is missing, there is a newer manifest."""
        attempts = 0
        while True:
            attempts += 1
            raw = read_raw_manifest(self._directory)
            if raw == self._raw and self._manifest is not None:
                for segment in self._segments.values():
                    segment.file.require_untouched()
                return self._manifest
            manifest = self._parser.parse(raw)
            self._require_newer(manifest)
            try:
                segments = self._mapped(manifest)
            except FileNotFoundError as error:
                if attempts == _ATTEMPTS:
                    raise CorruptState(
                        "a segment is missing",
                        where=str(error.filename),
                        next_step="its agent builds the table anew; try again in a few seconds",
                    ) from error
                continue
            self._raw, self._manifest, self._segments = raw, manifest, segments
            for name in self._specs:
                self._cover(name, [segments[one.name] for one in _named(manifest, name)])
            return manifest

    def _cover(self, name: str, segments: Sequence[Segment]) -> None:
        self._delta_filters[name].cover(segments[1:])  # the base is asked for every key that no delta has
        if name in self._network_filters:
            self._network_filters[name].cover(segments)

    def _mapped(self, manifest: Manifest) -> dict[str, Segment]:
        is_trusted = manifest.boot == self._boot
        return {
            written.name: self._segment(written, self._specs[name].columns, is_trusted=is_trusted)
            for name, table in manifest.tables.items()
            for written in table.segments
        }

    def _segment(self, written: Written, columns: pa.Schema, *, is_trusted: bool) -> Segment:
        known = self._segments.get(written.name)
        if known is not None and known.written.checksum == written.checksum:
            known.file.require_untouched()
            return known
        return Segment(self._directory, written, columns, is_trusted=is_trusted)

    def _require_newer(self, manifest: Manifest) -> None:
        if self._manifest is None:
            return
        seen = self._manifest.seq
        if manifest.seq.store != seen.store:
            raise Retryable(
                "the store was replaced by another",
                where=str(self._directory),
                next_step="open a new reader once its agent says that it is ready",
            )
        if manifest.seq < seen:
            raise CorruptState(
                f"the manifest is at {manifest.seq.counter}, this reader has seen {seen.counter}",
                where=str(self._directory),
                next_step="open a new reader once its agent says that it is ready",
            )


def _named(manifest: Manifest, name: str) -> Sequence[Written]:
    table = manifest.tables.get(name)
    return () if table is None else table.segments


class SegmentsSnapshot:
    """All tables at one seq, until the reader takes the next snapshot."""

    def __init__(self, reader: SegmentsReader, taken: int, manifest: Manifest) -> None:
        self._reader = reader
        self._taken = taken
        self._manifest = manifest

    @property
    def seq(self) -> Seq:
        return self._manifest.seq

    def has(self, name: str) -> bool:
        """Whether the table has segments, and the reader was opened for it."""
        state = self._manifest.tables.get(name)
        return state is not None and state.absent is None and self._reader.reads(name)

    def why_not(self, name: str) -> str:
        """Why a table has no segments."""
        state = self._manifest.tables.get(name)
        return "it was not asked for" if state is None else state.absent or ""

    def segments(self, name: str) -> Sequence[Segment]:
        """The mapped segments of a table, the base first."""
        return self._reader.segments(name, self._manifest, self._taken)

    def table(self, name: str) -> SegmentsTable:
        return self._reader.table(name, self._manifest, self._taken)
