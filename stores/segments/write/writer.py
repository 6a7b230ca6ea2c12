"""The writer of a store's segments: each publication writes one manifest for all tables."""

import contextlib
import threading
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stores.answers import unknown_table
from stores.clock import boot_id
from stores.errors import CorruptState, Fatal, Retryable
from stores.files import mapped_files
from stores.protocol import Clock, TableSpec
from stores.segments.file import Written
from stores.segments.manifest import Manifest, ManifestFile, TableState
from stores.segments.probes import Probes
from stores.segments.segment import Segment
from stores.segments.sources import Decoded, Source
from stores.segments.split import Marked, split_keys
from stores.segments.stats import Stats, stats_of
from stores.segments.write.base import BaseFiles, TableBuild
from stores.segments.write.build import build_segment
from stores.segments.write.change import Change, Known
from stores.segments.write.restart import reusable
from stores.segments.write.superseded import Superseded
from stores.segments.write.tiers import Tiers
from stores.table import HistoryFloor, Offsets, Seq


class SegmentsWriter:
    """Safe to use from several threads: merges and builds run beside publications."""

    def __init__(
        self,
        directory: Path,
        tables: Mapping[str, TableSpec],
        seq: Seq,
        known: Mapping[str, Known],
        clock: Clock,
        *,
        tiers: Tiers | None = None,
    ) -> None:
        """Takes over the segments of the previous writer that fit the tables' state at this seq.

        Tables whose segments do not fit or are damaged cannot be read until they are built: see `to_build`.
        """
        with mapped_files(directory):
            directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._file = ManifestFile(directory)
        self._specs = dict(tables)
        self._tiers = tiers or Tiers()
        self._superseded = Superseded(directory, clock)
        self._lock = threading.RLock()
        self._merging = threading.Lock()
        self._builds: dict[str, TableBuild] = {}
        self._segments: dict[str, Segment] = {}
        self._new: list[str] = []
        """Files that were written for the manifest that comes next."""
        self._failed: dict[str, Exception] = {}
        self._not_due: dict[str, TableState] = {}
        """Tables that needed no merge when they were as they are here."""
        self._manifest = Manifest(seq, boot_id(), {name: TableState() for name in tables})
        states = reusable(directory, self._specs, seq, known)
        self._show(replace(self._manifest, tables=states))
        self._superseded.sweep()

    @property
    def seq(self) -> Seq:
        return self._manifest.seq

    @property
    def names(self) -> Collection[str]:
        """The names of all tables."""
        return self._specs.keys()

    @property
    def to_build(self) -> Mapping[str, str]:
        """The tables that cannot be read before they are built, and why."""
        tables = self._manifest.tables.items()
        return {name: table.absent for name, table in tables if table.absent is not None}

    def stats(self) -> Mapping[str, Stats]:
        with self._lock:
            return {name: stats_of(self._opened(name)) for name in self._specs}

    def publish(self, seq: Seq, changes: Mapping[str, Change]) -> None:
        """Makes the changes of all named tables visible at once. Raises Retryable if the disk is full; then none is.

        The state of a table that waits to be built changes too, but its rows are kept only once a build has begun. A
        table whose segments cannot be written for a reason of its own is withdrawn from readers: see `failures`.
        """
        with self._lock:
            if seq < self.seq:
                raise Fatal(f"publication {seq.counter} came after publication {self.seq.counter}")
            tables = dict(self._manifest.tables)
            with self._all_or_nothing():
                for name, change in changes.items():
                    if name not in tables:
                        raise unknown_table(name, list(tables))
                    try:
                        tables[name] = self._with_change(name, tables[name], change)
                    except (Retryable, Fatal):
                        raise  # an error of the host: a full disk, say
                    except Exception as error:  # noqa: BLE001 - whatever it is, it does not concern other tables
                        self._failed[name] = error
                        tables[name] = self._lost(name, change)
                self._show(replace(self._manifest, seq=seq, tables=tables))

    def failures(self) -> Mapping[str, Exception]:
        """The tables whose segments could not be written since the last call, and their errors."""
        with self._lock:
            failed, self._failed = self._failed, {}
        return failed

    def build(self, name: str) -> TableBuild:
        """Begins to build a table anew. A `Base` must be made from its `files`, here or in another process, with every
        version that was published until now, and then be passed to `take`."""
        with self._lock:
            if name not in self._specs:
                raise unknown_table(name, list(self._specs))
            self._abandon_build_of(name)
            self._builds[name] = TableBuild(name, BaseFiles.new(self._directory, name))
            return self._builds[name]

    def take(self, build: TableBuild, base: Written) -> None:
        """Makes a base visible, under the deltas that were published meanwhile. Raises Fatal if the build was
        abandoned."""
        with self._lock:
            if self._builds.get(build.name) is not build:
                raise Fatal(f"the build of table `{build.name}` was abandoned")
            named = _named(self._manifest)
            with self._all_or_nothing():
                deltas = [self._marked(build.name, delta, base) for delta in build.deltas]
                state = replace(self._manifest.tables[build.name], segments=(base, *deltas), absent=None)
                self._show(replace(self._manifest, tables={**self._manifest.tables, build.name: state}))
            del self._builds[build.name]
            for delta in build.deltas:
                if delta not in deltas and delta.name not in named:
                    self._superseded.remove(delta.name)  # no manifest has ever named it: the marked one stands for it

    def abandon(self, build: TableBuild) -> None:
        """Gives up; the table is unchanged."""
        build.is_abandoned = True
        with self._lock:
            if self._builds.get(build.name) is build:
                del self._builds[build.name]
                for name in {delta.name for delta in build.deltas} - _named(self._manifest):
                    self._superseded.remove(name)
        build.files.remove()

    def merge(self) -> bool:
        """Merges some segments of one table if a merge is due, and returns whether. Publications go on meanwhile."""
        return any(self.merge_table(name) for name in self._specs)

    def merge_table(self, name: str) -> bool:
        """The same for this table."""
        table = self._manifest.tables[name]
        if self._not_due.get(name) is table:
            return False
        with self._merging:
            due = self._due(name)
            if due:
                return self._merge(name, due)
            if name not in self._builds:
                self._not_due[name] = table
            return False

    def withdraw(self, name: str, why: str) -> None:
        """Makes a table unreadable until it is built again."""
        with self._lock:
            table = replace(self._manifest.tables[name], segments=(), absent=why)
            self._show(replace(self._manifest, tables={**self._manifest.tables, name: table}))

    def check(self, *, whole: bool = False) -> Mapping[str, str]:
        """Checks that all files are unchanged, and withdraws tables with a damaged or missing one from readers.

        Returns `to_build`. Costs a few microseconds per segment, unless it was touched. `whole`: reads every byte. That
        may take seconds; publications go on meanwhile.
        """
        found = {name: error for name in self._specs if (error := self._damage(name, whole=whole)) is not None}
        with self._lock:
            tables = self._manifest.tables
            lost = {
                name: replace(tables[name], segments=(), absent=f"it is damaged: {error}")
                for name, error in found.items()
                if tables[name].absent is None
            }
            if lost:
                self._show(replace(self._manifest, tables={**tables, **lost}))
            else:
                self._superseded.keep_only(_named(self._manifest))  # removes expired files even if nothing is published
            return self.to_build

    # Inside.

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """If it fails, no file stays of what was written inside: it is tried again and again."""
        kept = {name: len(build.deltas) for name, build in self._builds.items()}
        self._new = []
        try:
            yield
        except BaseException:
            for name, build in self._builds.items():
                del build.deltas[kept.get(name, 0) :]
            for name in self._new:
                self._superseded.remove(name)
            raise

    def _damage(self, name: str, *, whole: bool) -> Exception | None:
        """Of a file of the table. One that was superseded meanwhile may be gone, but it may not be damaged: what was
        merged from it has its bytes."""
        with self._lock:
            try:
                segments = self._opened(name)
            except (CorruptState, FileNotFoundError) as error:
                return error
        for segment in segments:
            try:
                segment.file.require_there(whole=whole)
            except CorruptState as error:
                return error
            except FileNotFoundError as error:
                if segment.written in self._manifest.tables[name].segments:
                    return error
        return None

    def _due(self, name: str) -> Sequence[Segment]:
        with self._lock:
            if name in self._builds:
                return ()  # a merge now would mix versions that are in the build's base with those that are not
            segments = self._opened(name)
        due = self._tiers.due([segment.versions for segment in segments])
        return segments[due] if due is not None else ()

    def _merge(self, name: str, due: Sequence[Segment]) -> bool:
        with self._lock:
            state = self._manifest.tables[name]
        names = [segment.written.name for segment in due]
        # Above another segment a tombstone hides what is below it. With a history a pin may ask for it.
        is_whole = bool(state.segments) and names[0] == state.segments[0].name
        may_bury = is_whole and not self._specs[name].history_ms
        merged = self._written(name, due, state.floors, state.buried if may_bury else {})
        with self._lock:
            table = self._manifest.tables[name]
            now = [one.name for one in table.segments]
            if name in self._builds or names[0] not in now:
                self._superseded.remove(merged.name)  # the table was withdrawn or built anew meanwhile
                return False
            place = now.index(names[0])
            segments = (*table.segments[:place], merged, *table.segments[place + len(names) :])
            tables = {**self._manifest.tables, name: replace(table, segments=segments)}
            with self._all_or_nothing():
                self._new.append(merged.name)
                self._show(replace(self._manifest, tables=tables))
            return True

    def _abandon_build_of(self, name: str) -> None:
        if name in self._builds:
            self.abandon(self._builds[name])

    def _lost(self, name: str, change: Change) -> TableState:
        """The table without its segments: they lack the versions of this change."""
        self._abandon_build_of(name)
        return replace(change.with_segments(()), absent="what came could not be written into its segments")

    def _with_change(self, name: str, table: TableState, change: Change) -> TableState:
        build = self._builds.get(name)
        if change.lost is not None:
            self._abandon_build_of(name)  # its base has rows that no longer exist
            return replace(change.with_segments(()), absent=change.lost)
        segments = table.segments
        versions = change.versions
        if versions is not None and len(versions) and (table.absent is None or build is not None):
            probes = Probes.of(versions.column("key"))
            # The deltas of a build are not readable yet, but each must know the keys of those below it.
            older = self._opened(name) if table.absent is None or build is None else self._mapped(name, build.deltas)
            split = split_keys(probes, versions.column("partition").to_numpy(), older)
            delta = self._add(name, Decoded(versions, change.rows, split), change.floors)
            if build is not None:
                build.deltas.append(delta)
            if table.absent is None:
                segments = (*segments, delta)
        return replace(change.with_segments(segments), absent=table.absent)

    def _marked(self, name: str, delta: Written, base: Written) -> Written:
        """A delta that was written before its base existed, now with its split keys marked."""
        columns = self._specs[name].columns
        newer, older = (Segment(self._directory, one, columns, is_trusted=True) for one in (delta, base))
        marked = Marked(newer, older)
        return self._add(name, marked, {}) if marked.has_any() else delta

    def _opened(self, name: str) -> Sequence[Segment]:
        return self._mapped(name, self._manifest.tables[name].segments)

    def _mapped(self, name: str, segments: Sequence[Written]) -> Sequence[Segment]:
        columns = self._specs[name].columns
        for written in segments:
            if written.name not in self._segments:
                self._segments[written.name] = Segment(self._directory, written, columns, is_trusted=True)
        return [self._segments[written.name] for written in segments]

    def _add(self, name: str, source: Source, floors: Mapping[int, HistoryFloor]) -> Written:
        """One more file inside `_all_or_nothing`."""
        written = self._written(name, [source], floors)
        self._new.append(written.name)
        return written

    def _written(
        self, name: str, sources: Sequence[Source], floors: Mapping[int, HistoryFloor], buried: Offsets | None = None
    ) -> Written:
        path = self._directory / f"{name}-{uuid.uuid4().hex[:12]}.segment"
        return build_segment(path, self._specs[name].columns, sources, floors, buried)

    def _show(self, manifest: Manifest) -> None:
        self._file.write(manifest)
        self._manifest = manifest
        named = _named(manifest)
        needed = named | {delta.name for build in self._builds.values() for delta in build.deltas}
        for name in [name for name in self._segments if name not in needed]:
            del self._segments[name]
        self._superseded.keep_only(named)


def _named(manifest: Manifest) -> set[str]:
    return {one.name for table in manifest.tables.values() for one in table.segments}
