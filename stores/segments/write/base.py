"""Makes the base: the oldest segment of a table, from all its row versions. They are first collected in a file, since
they may be many."""

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from stores.errors import BadRecord
from stores.files import mapped_files
from stores.protocol import TableSpec
from stores.segments.file import Written
from stores.segments.sources import KEYS_AND_PLACES, Chunk, Decoded
from stores.segments.write.build import build_segment
from stores.table import HistoryFloor


@dataclass(frozen=True, slots=True)
class BaseFiles:
    """The files of a base that is being made. It can be passed to another process."""

    gathered: Path
    segment: Path

    @classmethod
    def new(cls, directory: Path, table: str) -> "BaseFiles":
        token = uuid.uuid4().hex[:12]
        return cls(directory / f"build-{token}.arrow", directory / f"{table}-{token}.segment")

    def remove(self) -> None:
        """Deletes what is left of a failed attempt."""
        for path in (self.gathered, self.segment):
            with contextlib.suppress(OSError):
                path.unlink()


@dataclass(slots=True)
class TableBuild:
    """One build of one table, while its old segments answer and publications go on. See `SegmentsWriter.build`."""

    name: str
    files: BaseFiles
    deltas: list[Written] = field(default_factory=list)
    """Published since the build began: they will stand above its base."""
    is_abandoned: bool = False
    """By its caller, or by the writer: for another build, or because all rows were replaced."""


class Base:
    """Makes one base. For one thread, in any process."""

    def __init__(self, files: BaseFiles, spec: TableSpec) -> None:
        self._files = files
        self._spec = spec
        fields = [pa.field("row", pa.struct(list(spec.columns)))]
        self._schema = pa.schema([*KEYS_AND_PLACES, *fields])
        with mapped_files(files.gathered):
            self._content = files.gathered.open("xb", buffering=1 << 20)
            self._file = pa.PythonFile(self._content, "w")
            self._writer = pa.ipc.new_file(self._file, self._schema)
        self._gathered = _Gathered(files.gathered)

    @property
    def gathered_bytes(self) -> int:
        """How much has been collected: about the size of the segment, or somewhat less."""
        return self._content.tell()

    def add(self, versions: pa.RecordBatch, rows: pa.StructArray | None = None) -> None:
        """Takes row versions (`ROW_VERSIONS`) in any order, with keys as the table stores them.

        `rows`: their decoded values; without them the values are decoded here. Raises BadRecord if one cannot be
        decoded: leaving it out would let an older version answer. Raises Retryable if the disk is full: begin again.
        """
        if rows is None:
            decoded = self._spec.decoder.decode(versions.column("value"))
            for index, reason in decoded.bad.items():
                raise _undecodable(versions, index, reason)
            rows = decoded.rows
        columns = [versions.column(name) for name in KEYS_AND_PLACES.names]
        batch = pa.RecordBatch.from_arrays([*columns, rows], schema=self._schema)
        with mapped_files(self._files.gathered):
            self._writer.write_batch(batch)
        self._gathered.add(batch)

    def finish(self, floors: Mapping[int, HistoryFloor]) -> Written:
        """The segment, without the versions that no look-up above the floors can return."""
        with mapped_files(self._files.gathered):
            self._writer.close()
            self._file.close()
        written = build_segment(self._files.segment, self._spec.columns, [self._gathered], floors)
        with mapped_files(self._files.gathered):
            self._files.gathered.unlink()
        return written

    def close(self) -> None:
        """Closes the file of collected versions."""
        with contextlib.suppress(OSError, pa.ArrowInvalid):
            self._file.close()


def _undecodable(versions: pa.RecordBatch, index: int, reason: str) -> BadRecord:
    partition, offset = (versions.column(name)[index].as_py() for name in ("partition", "offset"))
    return BadRecord(
        f"a row cannot be decoded any more: {reason}",
        where=f"partition {partition}, offset {offset}",
        next_step="produce the key again, or go back to the columns or the release that could decode it",
    )


@dataclass(slots=True)
class _Gathered:
    """Row versions in an Arrow file. It is read, not mapped: mapped, all of it would stay in the process's memory."""

    path: Path
    versions: int = 0
    key_bytes: int = 0

    def chunks(self) -> Iterator[Chunk]:
        with pa.OSFile(str(self.path)) as file:
            batches = pa.ipc.open_file(file)
            for number in range(batches.num_record_batches):
                yield from _decoded(batches.get_batch(number)).chunks()

    def add(self, batch: pa.RecordBatch) -> None:
        """One that is in the file."""
        source = _decoded(batch)
        self.versions += source.versions
        self.key_bytes += source.key_bytes


def _decoded(batch: pa.RecordBatch) -> Decoded:
    return Decoded(batch, batch.column("row"))
