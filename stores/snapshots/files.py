"""Row versions in files: Arrow IPC streams, hashed while they are written and while they are read."""

import errno
import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from stores.errors import CorruptState, Fatal, Retryable
from stores.snapshots.bounds import decompressed_size
from stores.snapshots.manifest import DataFile
from stores.table import ROW_VERSIONS

COLUMNS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("value", pa.binary()),
    ]
)
"""`ROW_VERSIONS` as it was when this format was defined. The stored form must not change with that schema."""

_SCHEMA_MESSAGES = ("a40a43dc782ae68570c9ee88eaacc80c1007d33f5abae9151e835d59b2b85914",)
"""SHA-256 of the schema message of these columns, as every Arrow release so far has written it. If a newer release
writes it differently, add its digest."""

LARGEST_BATCH = 256 << 20
"""Bytes of row versions in memory at once, at most. A batch is far smaller unless a single row is that large."""
_FILE_SIZE = 64 << 20
# Measured over 1 M JSON rows of 100 bytes: no more CPU time than lz4 or no compression, and a third of lz4's size.
_COMPRESSION = "zstd"


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turns OSErrors inside the block into errors of our tree that name the path."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Retryable("the disk is full", where=str(path), next_step="free space there and try again") from error
        raise Fatal(
            f"a snapshot's file cannot be used: {error.strerror or error}",
            where=str(path),
            next_step="check the directory and its rights",
        ) from error


def write_versions(
    directory: Path, kind: str, batches: Iterator[pa.RecordBatch], tell: Callable[[int], None]
) -> list[DataFile]:
    """Writes `kind`-00000.arrows and so on. All are on disk when it returns. `tell`: see `export_table`."""
    files: list[DataFile] = []
    batch = next(batches, None)
    while batch is not None:
        path = directory / f"{kind}-{len(files):05}.arrows"
        versions = 0
        with file_errors(path), path.open("xb") as file:
            hashed = _HashedWriting(file)
            with pa.ipc.new_stream(hashed, COLUMNS, options=_options()) as writer:
                while batch is not None and hashed.length < _FILE_SIZE:
                    _require_bounded(batch)
                    writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=COLUMNS))
                    versions += len(batch)
                    tell(len(batch))
                    batch = next(batches, None)
            file.flush()
            os.fsync(file.fileno())
        files.append(DataFile(path.name, versions, hashed.length, hashed.hexdigest()))
    return files


def read_versions(directory: Path, file: DataFile) -> Iterator[pa.RecordBatch]:
    """The row versions of a file. Raises CorruptState, at the end at the latest, if the file differs from the manifest:
    use nothing before it is exhausted."""
    path = directory / file.name
    versions = 0
    try:
        with opened(path) as raw:
            length = os.fstat(raw.fileno()).st_size
            if length != file.length:
                raise ValueError(f"it has {length} bytes, {file.length} are expected")
            hashed = _HashedReading(raw)
            messages = pa.ipc.MessageReader.open_stream(pa.PythonFile(hashed, mode="r"))
            # Arrow must not parse the schema: it crashes on some damaged ones.
            if _digest_of(messages.read_next_message().metadata) not in {*_SCHEMA_MESSAGES, schema_digest()}:
                raise ValueError("it does not hold row versions")
            for batch in _batches(messages):
                versions += len(batch)
                yield batch
            if versions != file.versions:
                raise ValueError(f"it holds {versions} row versions, {file.versions} are expected")
            if hashed.rest_of_file() != file.sha256:
                raise ValueError("its SHA-256 differs from the manifest's")
    # pa.ArrowInvalid is a ValueError, like most errors that Arrow raises for bytes that are not a stream.
    except (StopIteration, ValueError, TypeError, OSError, MemoryError, NotImplementedError) as error:
        raise CorruptState(
            f"a file of the snapshot is damaged: {error or 'it ends early'}",
            where=str(path),
            next_step="use another one",
        ) from error


def schema_digest() -> str:
    """The digest of the schema message as this Arrow release writes it."""
    return _digest_of(pa.ipc.read_message(COLUMNS.serialize()).metadata)


def _digest_of(message: pa.Buffer) -> str:
    return hashlib.sha256(message).hexdigest()


def _batches(messages: pa.ipc.MessageReader) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return
        if message.type != "record batch":
            raise ValueError(f"a message of type {message.type}")
        if decompressed_size(message) > LARGEST_BATCH:
            raise ValueError(f"a record batch of more than {LARGEST_BATCH >> 20} MiB")
        batch = pa.ipc.read_record_batch(message, COLUMNS)
        batch.validate(full=True)
        if any(batch.column(field.name).null_count for field in COLUMNS if not field.nullable):
            raise ValueError("a null where none may be")
        yield pa.RecordBatch.from_arrays(batch.columns, schema=ROW_VERSIONS)


@contextmanager
def opened(path: Path) -> Iterator[io.FileIO]:
    """Opens a regular file. Raises OSError for others: a link may lead out of the directory, a pipe may never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        with io.FileIO(descriptor, closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


class _HashedWriting:
    """The file-like object that Arrow writes to."""

    def __init__(self, file: io.BufferedWriter) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.length = 0
        self.closed = False

    def write(self, data: pa.Buffer | bytes) -> int:
        self._hash.update(data)
        self.length += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        """The file is flushed once, when it is whole."""

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class _HashedReading(io.RawIOBase):
    """The file-like object that Arrow reads from. Arrow asks for as much as the file claims: that is bounded here."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LARGEST_BATCH:
            raise ValueError(f"a message of {size} bytes")
        data = b"" if size == 0 else self._file.read(size)
        self._hash.update(data)
        return data

    def rest_of_file(self) -> str:
        """The digest, after also hashing what follows the stream."""
        while data := self._file.read(1 << 20):
            self._hash.update(data)
        return self._hash.hexdigest()


def _options() -> pa.ipc.IpcWriteOptions:
    return pa.ipc.IpcWriteOptions(compression=_COMPRESSION)


def _require_bounded(batch: pa.RecordBatch) -> None:
    if batch.nbytes > LARGEST_BATCH:
        raise Fatal(
            f"a row of {batch.nbytes} bytes is larger than a snapshot takes ({LARGEST_BATCH >> 20} MiB)",
            where=f"partition {batch.column('partition')[0]}, offset {batch.column('offset')[0]}",
            next_step="such tables can only be loaded from their topic",
        )
