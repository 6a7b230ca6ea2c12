"""The files of a store's directory.

db/          the database
watermark    the newest seq that was acknowledged: see `Watermark`
bulk/        sorted runs and files of bulk loads; the next writer deletes it
readers/     one directory for each secondary instance, locked as long as its process lives
"""

import contextlib
import fcntl
import os
import shutil
import struct
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from stores import files
from stores.errors import CorruptState, Retryable
from stores.rocks.errors import mapped_files
from stores.table import Seq

# The content of a watermark.
_BODY = struct.Struct("<8s32sqq")
_CHECK = struct.Struct("<I")
_SIZE = _BODY.size + _CHECK.size
_MAGIC = b"enrichW1"
_WATERMARK = "watermark"
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Directory:
    path: Path

    @property
    def database(self) -> Path:
        return self.path / "db"

    def prepare(self, *, may_make: bool) -> bool:
        """Whether a new store must be created here. Raises CorruptState if a store is missing, or part of it."""
        if may_make:
            with mapped_files(self.path):
                self.database.mkdir(parents=True, exist_ok=True)
        with mapped_files(self.path):
            has_files = self.database.exists() and any(self.database.iterdir())
        has_watermark = (self.path / _WATERMARK).exists()
        if has_files != has_watermark:
            # The watermark is written last: either the creation was interrupted, or something was deleted since.
            missing = "watermark" if has_files else "database"
            raise CorruptState(f"the store's {missing} is missing", where=str(self.path), next_step="rebuild the store")
        if not has_files and not may_make:
            raise CorruptState("the store was deleted", where=str(self.path), next_step="rebuild the store")
        return not has_files

    def new_work(self) -> Path:
        """A directory for one bulk load, on the database's file system: RocksDB ingests its files without a copy."""
        bulk = self.path / "bulk"
        with mapped_files(bulk):
            bulk.mkdir(exist_ok=True)
            return Path(tempfile.mkdtemp(dir=bulk))

    def new_reader(self) -> "ReaderDirectory":
        """Also removes those of readers that were killed: Spark ends idle workers in this way."""
        readers = self.path / "readers"
        with mapped_files(readers):
            readers.mkdir(exist_ok=True)
            self._sweep_readers()
            while True:
                path = Path(tempfile.mkdtemp(dir=readers))
                descriptor = _locked(path)
                if descriptor is not None:
                    if path.exists():
                        return ReaderDirectory(path, descriptor)
                    os.close(descriptor)  # another one took it for one that was left

    def sweep(self) -> None:
        """Removes what earlier processes left. Only the writer may: it knows that no other bulk load is running."""
        shutil.rmtree(self.path / "bulk", ignore_errors=True)
        with files.mapped_files(self.path):
            self._sweep_readers()

    def _sweep_readers(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            for path in (self.path / "readers").iterdir():
                descriptor = _locked(path)
                if descriptor is not None:
                    shutil.rmtree(path, ignore_errors=True)
                    os.close(descriptor)


@dataclass(frozen=True, slots=True)
class ReaderDirectory:
    """A secondary instance's own files."""

    path: Path
    _descriptor: int
    """Holds the lock, also for processes in other containers."""

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._descriptor)


def _locked(directory: Path) -> int | None:
    """A descriptor with the lock; None if a living process has it, or the directory has just been removed."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


class Watermark:
    """A small file beside the database with the newest seq that was acknowledged: its writer's side.

    A RocksDB MANIFEST that lost its end opens without an error, with an older state of the store or an empty one. That
    cannot be detected from inside the database, but with this file. It is written after the database is on disk, so
    after a crash it is behind, never ahead: a database that is behind it is damaged. It is overwritten in place, so a
    full disk does not matter.
    """

    def __init__(self, directory: Path, seq: Seq) -> None:
        """Creates the file, or opens the existing one."""
        self._path = directory / _WATERMARK
        with mapped_files(self._path):
            self._file = os.fdopen(
                os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b", buffering=0
            )
        self.raise_to(seq)

    def raise_to(self, seq: Seq) -> None:
        body = _BODY.pack(_MAGIC, seq.store.encode(), seq.generation, seq.counter)
        with mapped_files(self._path):
            os.pwrite(self._file.fileno(), body + _CHECK.pack(zlib.crc32(body)), 0)

    def close(self) -> None:
        self._file.close()


def read_watermark(directory: Path) -> Seq:
    """Raises Retryable if there is none (no store, or one being made), CorruptState if it cannot be read."""
    path = directory / _WATERMARK
    for _ in range(_ATTEMPTS):  # a read may happen during a write; a damaged file stays damaged
        try:
            with files.mapped_files(path):
                raw = path.read_bytes()
        except FileNotFoundError:
            raise Retryable(
                "there is no store yet, or its directory was deleted",
                where=str(directory),
                next_step="wait for an agent",
            ) from None
        body = raw[: _BODY.size]
        if len(raw) == _SIZE and _CHECK.pack(zlib.crc32(body)) == raw[_BODY.size :]:
            magic, store, generation, counter = _BODY.unpack(body)
            if magic == _MAGIC:
                return Seq(store.decode(), generation, counter)
    raise CorruptState("the store's watermark is damaged", where=str(path), next_step="rebuild the store")
