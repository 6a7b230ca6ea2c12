"""Remembers what the topic holds: for each key a hash of its value, in a local RocksDB.

It always matches the topic below `positions` and is never ahead of it, so reading the topic from there on brings it up
to date. It can always be rebuilt from the topic.

Each row has a slot, a small number: what a reading has seen is one flag per slot instead of a set of keys.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from enrich.base.errors import CorruptState, Fenced, Retryable
from enrich.base.folders import make_folder
from stores.rocks.database import Database, Sizes
from stores.rocks.errors import mapped_files
from sync_service.sources.polled.source import Progress

DIGEST = 16
_ROW = np.dtype([("slot", "<i8"), ("digest", "V16")])
_ROWS, _END = b"r", b"s"
_META = b"m"
_FORMAT = 1
_BATCH = 20_000
_FEW_SLOTS = 1_000_000


def digests_of(values: Sequence[bytes]) -> npt.NDArray[np.void]:
    """Equal digests mean equal values: 128 bits of BLAKE2b, which is stable across library releases."""
    joined = b"".join([hashlib.blake2b(value, digest_size=DIGEST).digest() for value in values])
    return np.frombuffer(joined, "V16")


@dataclass(frozen=True, slots=True)
class Known:
    """For some keys their slot (-1: unknown key) and digest."""

    slots: npt.NDArray[np.int64]
    digests: npt.NDArray[np.void]


@dataclass(slots=True)
class _Meta:
    topic_id: str
    positions: dict[int, int] = field(default_factory=dict)
    caught_up_ms: int = 0
    rows: int = 0
    next_slot: int = 0
    progress: Progress = field(default_factory=Progress)

    def encode(self) -> bytes:
        positions = {str(partition): offset for partition, offset in self.positions.items()}
        content: dict[str, Any] = {
            "format": _FORMAT,
            "topic_id": self.topic_id,
            "positions": positions,
            "caught_up_ms": self.caught_up_ms,
            "rows": self.rows,
            "next_slot": self.next_slot,
            "progress": self.progress.as_json(),
        }
        return json.dumps(content).encode()

    @classmethod
    def decode(cls, raw: bytes) -> "_Meta":
        content = json.loads(raw)
        if content.pop("format", None) != _FORMAT:
            raise ValueError("another format")
        positions = {int(partition): int(offset) for partition, offset in content.pop("positions").items()}
        kept = content.pop("progress")
        kept.pop("rejected", None)  # written by an earlier release
        without = kept.pop("without_record", None)
        progress = Progress(**kept, without_record=None if without is None else (int(without[0]), int(without[1])))
        return cls(**content, positions=positions, progress=progress)


class KnownRows:
    """For one thread. Raises CorruptState if it is damaged: then it is rebuilt from the topic."""

    def __init__(self, database: Database, meta: _Meta) -> None:
        self._database = database
        self._meta = meta
        self._is_flushed = True
        self.markers: set[int] = set()
        """Partitions in which only the marker of our last commit may follow the position."""

    @classmethod
    def open(cls, directory: Path) -> "KnownRows":
        """Raises CorruptState if it is missing or damaged, Retryable while another process has it open."""
        database = _opened(directory)
        try:
            raw = database.get_many([_META])[0]
            if raw is None:
                raise CorruptState("the known rows of the topic are missing", where=str(directory))
            return cls(database, _Meta.decode(raw))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            database.close()
            raise CorruptState("the known rows of the topic cannot be read", where=str(directory)) from error
        except BaseException:
            database.close()
            raise

    @classmethod
    def make(cls, directory: Path, topic_id: str) -> "KnownRows":
        """Starts empty. Deletes what is in the directory."""
        with mapped_files(directory):
            if directory.exists():
                shutil.rmtree(directory)
        make_folder(directory)
        return cls(_opened(directory, create=True), _Meta(topic_id))

    @property
    def topic_id(self) -> str:
        return self._meta.topic_id

    @property
    def positions(self) -> Mapping[int, int]:
        """For each partition, the offset below which everything is known."""
        return self._meta.positions

    @property
    def caught_up_ms(self) -> int:
        return self._meta.caught_up_ms

    @property
    def rows(self) -> int:
        return self._meta.rows

    @property
    def slots(self) -> int:
        """All slots are below this."""
        return self._meta.next_slot

    @property
    def is_sparse(self) -> bool:
        """Whether most slots belong to rows that are gone. Each slot costs a byte during a reading."""
        return self.slots > max(_FEW_SLOTS, 4 * self.rows)

    @property
    def progress(self) -> Progress:
        return self._meta.progress

    def lookup(self, keys: Sequence[bytes]) -> Known:
        if self._meta.rows == 0:
            return Known(np.full(len(keys), -1, np.int64), np.zeros(len(keys), f"V{DIGEST}"))
        found = self._database.get_many([_ROWS + key for key in keys])
        rows = pa.array(found, pa.binary(_ROW.itemsize))
        unknown = rows.is_null().to_numpy(zero_copy_only=False)
        raw = np.frombuffer(rows.buffers()[1], _ROW, len(keys)) if len(keys) else np.empty(0, _ROW)
        return Known(np.where(unknown, -1, raw["slot"]), raw["digest"])

    def apply(
        self,
        keys: Sequence[bytes],
        slots: npt.NDArray[np.int64],
        digests: npt.NDArray[np.void],
        deleted: npt.NDArray[np.bool_],
        positions: Mapping[int, int],
    ) -> None:
        """Stores, atomically, what the topic holds of these keys, each given once, up to the positions.

        `slots` are those that `lookup` returned.
        """
        is_new = (slots < 0) & ~deleted
        given = np.where(is_new, self._meta.next_slot + np.cumsum(is_new) - 1, slots)
        rows = np.empty(len(keys), _ROW)
        rows["slot"], rows["digest"] = given, digests
        raw = rows.tobytes()
        size = _ROW.itemsize
        puts, deletes = {}, []
        for index, (key, gone) in enumerate(zip(keys, deleted.tolist(), strict=True)):
            if gone:
                deletes.append(_ROWS + key)
            else:
                puts[_ROWS + key] = raw[index * size : (index + 1) * size]
        meta = self._meta
        meta.rows += int(is_new.sum()) - int((deleted & (slots >= 0)).sum())
        meta.next_slot += int(is_new.sum())
        meta.positions = dict(positions)
        puts[_META] = meta.encode()
        self._database.write(puts, deletes)
        self._is_flushed = False

    def note(
        self,
        *,
        positions: Mapping[int, int] | None = None,
        caught_up_ms: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        if positions is not None:
            self._meta.positions = dict(positions)
        if caught_up_ms is not None:
            self._meta.caught_up_ms = caught_up_ms
        if progress is not None:
            self._meta.progress = progress
        self._database.write({_META: self._meta.encode()})
        self._is_flushed = False

    def unseen(self, seen: npt.NDArray[np.bool_]) -> Iterator[tuple[list[bytes], npt.NDArray[np.int64]]]:
        """The keys whose slots were not seen, in batches. Raises CorruptState if rows are missing."""
        keys: list[bytes] = []
        slots: list[int] = []
        rows = 0
        for key, value in self._database.scan(_ROWS, _END):
            rows += 1
            slot = int.from_bytes(value[:8], "little")
            if not seen[slot]:
                keys.append(key[1:])
                slots.append(slot)
                if len(keys) >= _BATCH:
                    yield keys, np.array(slots, np.int64)
                    keys, slots = [], []
        if rows != self._meta.rows:
            raise CorruptState(f"{rows} of {self._meta.rows} known rows are left", where=str(self._database.path))
        if keys:
            yield keys, np.array(slots, np.int64)

    def flush(self) -> None:
        """Returns when all is on disk. Without it a killed process reads some of the topic again."""
        if not self._is_flushed:
            self._database.flush()
            self._is_flushed = True

    def close(self) -> None:
        self._database.close()


def _opened(directory: Path, *, create: bool = False) -> Database:
    try:
        return Database.primary(directory, _sizes(), create=create)
    except Fenced as error:
        # Who has the turn is no news of who has the directory: it may be an instance that stands still.
        raise Retryable(
            "another process has the known rows open: an instance that has lost its turn and stands still, "
            "or the service of another pipeline of this name",
            where=str(directory),
            next_step="this one goes on when that one ends; pipelines of one name need a state_dir each",
        ) from error


def _sizes() -> Sizes:
    return Sizes(block_cache=16 << 20, write_buffer=16 << 20)
