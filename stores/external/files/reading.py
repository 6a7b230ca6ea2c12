"""Files as Arrow batches: copied whole from wherever fsspec reaches, then read from the copy, in bounded memory.

A file may be replaced or cut short while somebody reads it. The copy cannot, and it is refused when the file was not
the same before and after: a reader sees one whole file or none.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from stores.errors import ConfigError, Retryable, Unreachable
from stores.external.files.formats import FORMATS, FileFormat, Reading
from stores.files import make_private, mapped_files

_PIECE = 1 << 20
_RESTED_S = 2.0
_LOOKS = ("size", "ino", "mtime", "ETag", "etag", "LastModified", "last_modified", "updated", "generation", "md5")
"""What the file systems of fsspec tell about a file that changes when the file does."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a file looks from outside."""

    size: int
    known: str
    """Another text when the file has changed; empty where nothing but its size is known."""


class FileReader:
    """One CSV, JSON or Parquet file: a local path, or an address such as `s3://bucket/users.parquet`."""

    def __init__(
        self,
        path: str,
        file_format: FileFormat,
        columns: pa.Schema | None = None,
        *,
        stopping: Callable[[], bool] = lambda: False,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._where = f"file {path}"
        self._format = file_format
        self._columns = columns
        self._stopping = stopping
        self._now_s = now_s
        self._system: Any = None
        self._inner = path

    @property
    def where(self) -> str:
        """The file, for messages."""
        return self._where

    def look(self) -> Look:
        """Raises Retryable while there is no such file, Unreachable when its file system does not answer."""
        with self._errors():
            return _look(self._opened().info(self._inner))

    @contextmanager
    def copied(self, directory: Path) -> Iterator["Reading"]:
        """A copy of the file as it is now, open for reading, gone after the block.

        Raises Retryable when the file was being written, or is no whole file of its format: it may be next time.
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
        import fsspec

        with self._errors():
            system = self._opened()
            before = system.info(self._inner)
            modified = before.get("mtime")
            if isinstance(modified, int | float) and 0 <= self._now_s() - modified < _RESTED_S:
                raise self._changing("was written this moment")
            with fsspec.open(self._path, "rb", compression="infer") as source, copy.open("wb") as target:
                while piece := source.read(_PIECE):
                    target.write(piece)
                    if self._stopping():
                        raise Retryable("reading a file was ended, as we are to stop", where=self._where)
            system.invalidate_cache()
            after = system.info(self._inner)
        compressed = fsspec.utils.infer_compression(self._path) is not None
        if _look(before) != _look(after) or not (compressed or copy.stat().st_size == _look(after).size):
            raise self._changing("changed while it was read")

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
        except (OSError, EOFError) as error:  # also what compressed files raise that were cut short
            kind = Unreachable if isinstance(error, OSError) and "://" in self._path else Retryable
            raise kind(f"the file cannot be read: {error}", where=self._where) from error


def _look(info: Mapping[str, Any]) -> Look:
    told = {name: str(info[name]) for name in _LOOKS if info.get(name) is not None}
    changes = set(told) - {"size", "ino"}
    return Look(int(info.get("size") or 0), repr(sorted(told.items())) if changes else "")
