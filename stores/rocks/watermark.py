"""A small file beside the database with the newest seq that was acknowledged.

A RocksDB MANIFEST that lost its end opens without an error, with an older state of the store or an empty one. That
cannot be detected from inside the database, but with this file. It is written after the database is on disk, so after a
crash it is behind, never ahead: a database that is behind it is damaged. It is overwritten in place, so a full disk
does not matter.
"""

import os
import struct
import zlib
from pathlib import Path

from stores import files
from stores.errors import CorruptState, Retryable
from stores.rocks.errors import mapped_files
from stores.table import Seq

_BODY = struct.Struct("<8s32sqq")
_CHECK = struct.Struct("<I")
_SIZE = _BODY.size + _CHECK.size
_MAGIC = b"enrichW1"
_NAME = "watermark"
_ATTEMPTS = 20


class Watermark:
    """The writer's side of the file."""

    def __init__(self, directory: Path, seq: Seq) -> None:
        """Creates the file, or opens the existing one."""
        self._path = directory / _NAME
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


def is_there(directory: Path) -> bool:
    return (directory / _NAME).exists()


def read_watermark(directory: Path) -> Seq:
    """Raises Retryable if there is none (no store, or one being made), CorruptState if it cannot be read."""
    path = directory / _NAME
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
