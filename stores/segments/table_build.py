"""Builds a table's segments anew beside those that answer, from all its row versions, and swaps them."""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from stores.protocol import TableSpec
from stores.segments.change import Known
from stores.segments.errors import mapped_files
from stores.segments.file import Written
from stores.segments.sources import KEYS_AND_PLACES, Chunk, Decoded, Source
from stores.table import Seq


class Target(Protocol):
    """What a build needs of its writer."""

    def swap(self, build: "TableBuild", sources: Sequence[Source], seq: Seq, known: Known) -> None: ...

    def abandon(self, build: "TableBuild") -> None: ...


class TableBuild:
    """One build of one table. For one thread; publications and merges go on beside it.

    What it is given must hold every version that was published before it began. What is published while it runs is kept
    and stands above it in the end.
    """

    def __init__(self, target: Target, name: str, spec: TableSpec, directory: Path) -> None:
        self.name = name
        self.deltas: list[Written] = []
        """Published since it began."""
        self._target = target
        self._spec = spec
        fields = [pa.field("row", pa.struct(list(spec.columns)))]
        self._schema = pa.schema([*KEYS_AND_PLACES, *fields])
        with mapped_files(directory):
            descriptor, path = tempfile.mkstemp(prefix="build-", suffix=".arrow", dir=directory)
            self._path = Path(path)
            self._file = pa.PythonFile(open(descriptor, "wb", buffering=1 << 20), "w")  # noqa: SIM115, PTH123 - see close
            self._writer = pa.ipc.new_file(self._file, self._schema)

    def add(self, versions: pa.RecordBatch, rows: pa.StructArray | None = None) -> None:
        """Takes row versions (`ROW_VERSIONS`) in any order, their keys as the table stores them.

        `rows`: their decoded values; without them the values are decoded here, and what cannot be is passed over.
        Raises Retryable when the disk is full: abandon the build and begin again.
        """
        if rows is None:
            decoded = self._spec.decoder.decode(versions.column("value"))
            rows = decoded.rows
            if decoded.bad:
                is_good = np.ones(len(versions), bool)
                is_good[list(decoded.bad)] = False
                versions, rows = versions.filter(pa.array(is_good)), rows.filter(pa.array(is_good))
        columns = [versions.column(name) for name in KEYS_AND_PLACES.names]
        with mapped_files(self._path):
            self._writer.write_batch(pa.RecordBatch.from_arrays([*columns, rows], schema=self._schema))

    def finish(self, seq: Seq, known: Known) -> None:
        """Shows the new segments in place of all that the table had. When it raises, the build is abandoned."""
        try:
            with mapped_files(self._path):
                self._writer.close()
                self._file.close()
            self._target.swap(self, [Spooled(self._path)], seq, known)
        except BaseException:
            self.abandon()
            raise
        self._path.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Gives up; the table stays as it is."""
        with contextlib.suppress(OSError, pa.ArrowInvalid):
            self._file.close()
        self._path.unlink(missing_ok=True)
        self._target.abandon(self)


class Spooled:
    """Row versions in an Arrow file, mapped: what has been gone through can leave memory again."""

    def __init__(self, path: Path) -> None:
        self._batches = pa.ipc.open_file(pa.memory_map(str(path)))
        sources = [self._source(number) for number in range(self._batches.num_record_batches)]
        self.versions = sum(source.versions for source in sources)
        self.key_bytes = sum(source.key_bytes for source in sources)

    def chunks(self) -> Iterator[Chunk]:
        for number in range(self._batches.num_record_batches):
            yield from self._source(number).chunks()

    def _source(self, number: int) -> Decoded:
        batch = self._batches.get_batch(number)
        return Decoded(batch, batch.column("row"))
