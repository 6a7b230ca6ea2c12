"""A file of named sections: written once, sequentially, and then only mapped.

    magic | sections, each at a multiple of 64 | footer (JSON) | length and checksum of the footer, magic

The footer contains the checksum of everything before it, so the checksum of the footer covers the whole file.
"""

import contextlib
import ctypes
import errno
import json
import mmap
import os
import struct
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stores.errors import CorruptState
from stores.files import mapped_files
from stores.segments.loops.compiled import Bytes
from stores.segments.loops.hashing import checksum

_MAGIC = b"enrichS1"
_END = struct.Struct("<QQ8s")
_ALIGNMENT = 64


class Stamp(NamedTuple):
    """Size, inode and change time of a file. Any later write gives it another change time."""

    size: int
    inode: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> "Stamp":
        """Raises FileNotFoundError."""
        found = path.stat()
        return cls(found.st_size, found.st_ino, found.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class Written:
    """A whole file, as its manifest describes it."""

    name: str
    checksum: int
    stamp: Stamp
    """The stamp when it was written or verified. If the file has another one, it must be verified before use."""


class FileWriter:
    """Writes one file. Nobody reads it before `finish` has returned and a manifest lists it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sections: dict[str, tuple[int, int]] = {}
        with mapped_files(path):
            self._file = path.open("xb", buffering=1 << 18)
            self._file.write(_MAGIC)

    def add(self, name: str, parts: "Iterable[memoryview | bytes]") -> None:
        with mapped_files(self._path):
            padding = -self._file.tell() % _ALIGNMENT
            self._file.write(bytes(padding))
            start = self._file.tell()
            for part in parts:
                self._file.write(part)
            self._sections[name] = (start, self._file.tell() - start)

    def finish(self, facts: Mapping[str, Any]) -> Written:
        """Ends the file with its footer, which contains `facts` and the positions of the sections."""
        with mapped_files(self._path):
            self._file.flush()
            body = checksum(content_of(self._path))
            document = {**facts, "sections": self._sections, "body": body}
            footer = json.dumps(document, separators=(",", ":")).encode()
            check = checksum(_read_only(footer))
            self._file.write(footer + _END.pack(len(footer), check, _MAGIC))
            self._file.close()
            return Written(self._path.name, check, Stamp.of(self._path))

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink()


class MappedFile:
    """A file that stays mapped as long as anything refers to one of its sections."""

    def __init__(self, path: Path, written: Written, *, is_trusted: bool) -> None:
        """Raises FileNotFoundError if it is gone, CorruptState if its content has changed, Retryable if the host has
        reached its limit of mappings.

        `is_trusted`: its sections need not be verified if the file was not touched since the last time.
        """
        self.path = path
        self._stamp = Stamp.of(path)
        # Check before anything is read: reading a mapping beyond the end of a truncated file kills the process.
        if self._stamp.size != written.stamp.size:
            raise damaged(path, f"has {self._stamp.size} bytes, it was written with {written.stamp.size}")
        self._content = content_of(path)
        self._written = written
        self.facts = self._footer()
        if not is_trusted or self._stamp != written.stamp:
            self._verify()

    @property
    def content(self) -> Bytes:
        """The whole mapped file."""
        return self._content

    def section(self, name: str) -> Bytes:
        start, length = self.facts["sections"][name]
        return self._content[start : start + length]

    def require_untouched(self) -> None:
        """Raises CorruptState if the file's content has changed since it was mapped."""
        try:
            self.require_there()
        except FileNotFoundError:
            return  # the mapping stays valid even if the file was deleted

    def require_there(self, *, whole: bool = False) -> None:
        """The same; also raises FileNotFoundError if the file was deleted or replaced. `whole`: verifies every byte."""
        stamp = Stamp.of(self.path)
        if stamp == self._stamp and not whole:
            return
        if stamp.inode != self._stamp.inode:
            raise FileNotFoundError(errno.ENOENT, "another file has its name", str(self.path))
        if stamp.size != self._stamp.size:
            raise damaged(self.path, f"has {stamp.size} bytes, it was written with {self._stamp.size}")
        self._verify()
        self._stamp = stamp

    def _verify(self) -> None:
        if checksum(self._content[: self._body]) != self._footer()["body"]:
            raise damaged(self.path, "is not as it was written: it has another checksum")

    def _footer(self) -> dict[str, Any]:
        end = len(self._content) - _END.size
        length, check, magic = _END.unpack(self._content[max(end, 0) :].tobytes()) if end > 0 else (0, 0, b"")
        footer = self._content[max(end - length, 0) : max(end, 0)]
        if magic != _MAGIC or check != self._written.checksum or checksum(footer) != check:
            raise damaged(self.path, "is not as it was written: its footer has another checksum")
        self._body = end - length
        facts: dict[str, Any] = json.loads(footer.tobytes())
        return facts


def _read_only(data: bytes) -> Bytes:
    return np.frombuffer(data, np.uint8)


_C = ctypes.CDLL(None, use_errno=True)
_C.mmap.restype = ctypes.c_void_p
_C.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_C.munmap.restype = ctypes.c_int
_C.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value


class _Mapping:
    """Lives as long as any array over it."""

    def __init__(self, address: int, length: int) -> None:
        # Not at exit: threads may still read until the process has ended; then the kernel unmaps it.
        weakref.finalize(self, _C.munmap, address, length).atexit = False


def content_of(path: Path) -> Bytes:
    """A whole file, read-only. Raises FileNotFoundError, and Retryable if the host's limit of mappings is reached.

    No descriptor stays open: a worker maps several files per table, and its limit of open files is low. Python's own
    `mmap`, which numpy and Arrow use, keeps one as long as the mapping lives.
    """
    with mapped_files(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            length = os.fstat(descriptor).st_size
            address = _C.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
            if address == _FAILED:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(path))
        finally:
            os.close(descriptor)
    return np.frombuffer(pa.foreign_buffer(address, length, _Mapping(address, length)), np.uint8)


def damaged(path: Path, what: str) -> CorruptState:
    return CorruptState(
        f"a segment {what}", where=str(path), next_step="its agent builds the table anew; try again in a few seconds"
    )
