"""Reads files as Arrow batches: copies the whole file with fsspec, then reads the copy, in bounded memory.

A file may be replaced or truncated while it is read. The copy cannot, and it is refused if the file changed during the
copy: a reader sees one whole file or none.
"""

import lzma
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import pyarrow as pa

from stores.errors import ConfigError, Retryable, Unreachable
from stores.external.files.archives import only_file
from stores.external.files.formats import FORMATS, FileFormat, Reading
from stores.files import make_private, mapped_files, refusal

_PIECE = 1 << 20
_RESTED_S = 2.0
_LOOKS = ("size", "ino", "mtime", "ETag", "etag", "LastModified", "last_modified", "updated", "generation", "md5")
"""The attributes that fsspec's file systems report and that change when the file changes."""
_DAMAGED = (zlib.error, lzma.LZMAError, BadZipFile, RuntimeError, NotImplementedError)
"""What decompressing raises, beside errors of the system. The last two are of archives: with a password, or compressed
in a way that Python does not know."""
_OF_ZSTD = "ZSTD", "Truncated compressed stream"
"""In what Arrow says of a file that it cannot decompress."""


@dataclass(frozen=True, slots=True)
class Look:
    """A file's size and other attributes, to detect changes."""

    size: int
    known: str
    """Changes when the file changes; empty if only its size is known."""


@dataclass(slots=True)
class Seen:
    """A file that was written in the future, and since when it is as it is."""

    look: Look | None = None
    since_s: float = 0.0


class FileReader:
    """Reads one CSV, JSON or Parquet file: a local path, or an address such as `s3://bucket/users.parquet`."""

    def __init__(
        self,
        path: str,
        file_format: FileFormat,
        columns: pa.Schema | None = None,
        *,
        stopping: Callable[[], bool] = lambda: False,
        now_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = time.monotonic,
        seen: Seen | None = None,
    ) -> None:
        """`seen`: by earlier readers of the same file."""
        self._path = path
        self._where = f"file {path}"
        self._format = file_format
        self._columns = columns
        self._stopping = stopping
        self._now_s = now_s
        self._steady_s = steady_s
        self._seen = seen or Seen()
        self._system: Any = None
        self._inner = path

    @property
    def where(self) -> str:
        """The file, for messages."""
        return self._where

    def look(self) -> Look:
        """Raises Retryable if there is no such file, Unreachable if its file system does not answer."""
        with self._errors():
            return _look(self._opened().info(self._inner))

    @contextmanager
    def copied(self, directory: Path) -> Iterator["Reading"]:
        """A copy of the file as it is now, open for reading. It is deleted after the block.

        Raises Retryable if the file is being written or is not a complete file of its format: it may be next time.
        """
        with mapped_files(directory):
            make_private(directory)
        copy = directory / "copy"
        try:
            self._copy(copy)
            with FORMATS[self._format](copy, self._where, self._columns) as reading:
                yield reading
        finally:
            copy.unlink(missing_ok=True)

    def _copy(self, copy: Path) -> None:
        with self._errors():
            system = self._opened()
            before = system.info(self._inner)
            if before.get("type") == "other":
                raise ConfigError("it is a pipe or a device, and no file", where=self._where)
            modified = before.get("mtime")
            if isinstance(modified, int | float) and not self._rests(_look(before), self._now_s() - modified):
                raise self._changing("was written this moment")
            with self._inflated() as source, _Copy(copy) as target:
                while piece := source.read(_PIECE):
                    target.write(piece)
                    if self._stopping():
                        raise Retryable("reading was stopped, because the process is stopping", where=self._where)
            system.invalidate_cache()
            after = system.info(self._inner)
        is_whole = self._compression() is not None or copy.stat().st_size == _look(after).size
        if _look(before) != _look(after) or not is_whole:
            raise self._changing("changed while it was read")

    def _rests(self, look: Look, age_s: float) -> bool:
        if age_s >= 0:
            return age_s >= _RESTED_S
        # Of a file system whose clock is ahead, or from before ours was set back: it rests if it is seen to.
        seen, now_s = self._seen, self._steady_s()
        if seen.look != look:
            seen.look, seen.since_s = look, now_s
        return now_s - seen.since_s >= _RESTED_S

    @contextmanager
    def _inflated(self) -> Iterator[IO[bytes]]:
        import fsspec

        compression = self._compression()
        try:
            if compression == "zip":
                with fsspec.open(self._path, "rb") as archive, only_file(archive, self._where) as source:
                    yield source
            elif compression == "zstd":
                # By Arrow: to fsspec's reader a file that was cut short is a whole one.
                with fsspec.open(self._path, "rb") as file, pa.CompressedInputStream(file, "zstd") as source:
                    yield source
            else:
                with fsspec.open(self._path, "rb", compression=compression) as source:
                    yield source
        except _DAMAGED as error:
            raise self._cannot_decompress(error) from error
        except OSError as error:
            if not any(said in str(error) for said in _OF_ZSTD):
                raise
            raise self._cannot_decompress(error) from error

    def _cannot_decompress(self, error: Exception) -> Retryable:
        return Retryable(f"the file cannot be decompressed: {error}", where=self._where, next_step="put it there again")

    def _compression(self) -> str | None:
        import fsspec

        found: str | None = fsspec.utils.infer_compression(self._path)
        return found

    def _changing(self, what: str) -> Retryable:
        return Retryable(
            f"the file {what}", where=self._where, next_step="it is read again; better write it aside and rename it"
        )

    def _opened(self) -> Any:
        if self._system is None:
            import fsspec

            try:
                self._system, self._inner = fsspec.core.url_to_fs(self._path, use_listings_cache=False)
            except (ImportError, ValueError) as error:
                raise ConfigError(
                    f"the file's address cannot be used: {error}",
                    where=self._where,
                    next_step="correct it, or install fsspec's package for it (s3fs, gcsfs, adlfs, ...)",
                ) from None
        return self._system

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise Retryable("there is no such file", where=self._where, next_step="put it there") from None
        except (PermissionError, IsADirectoryError) as error:
            raise ConfigError(f"the file cannot be read: {error.strerror or error}", where=self._where) from None
        except (OSError, EOFError) as error:  # EOFError: a truncated compressed file
            kind = Unreachable if isinstance(error, OSError) and "://" in self._path else Retryable
            raise kind(f"the file cannot be read: {error}", where=self._where) from error


class _Copy(AbstractContextManager["_Copy"]):
    """A file of ours. Its errors are not those of the file that is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._errors():
            self._file = path.open("wb", buffering=0)

    def write(self, piece: bytes) -> None:
        left = memoryview(piece)
        with self._errors():
            while left:
                left = left[self._file.write(left) :]

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            refused = refusal(error, self._path)
            if isinstance(refused, Retryable):
                raise refused from error
            raise Retryable(
                f"the file cannot be copied: {error.strerror}",
                where=str(self._path),
                next_step="check the directory and its permissions",
            ) from error


def _look(info: Mapping[str, Any]) -> Look:
    told = {name: str(info[name]) for name in _LOOKS if info.get(name) is not None}
    changes = set(told) - {"size", "ino"}
    return Look(int(info.get("size") or 0), repr(sorted(told.items())) if changes else "")
