"""The interface that an external system implements to be a source."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa


class Extent(StrEnum):
    """What a reading contains, and so what it means if a key is missing."""

    whole = "whole"  # every row is there: a missing key was deleted
    changes = "changes"  # rows that may have changed: a missing key means nothing
    keys = "keys"  # the keys of every row, and nothing else: a missing key was deleted


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a source was read, kept with the rows that were read until then.

    It may be lost or outdated at any time: then more is read than necessary, and rows that are known change nothing.
    """

    whole_at_ms: int | None = None
    """When the last whole reading began; None: one is needed."""
    keys_at_ms: int | None = None
    """When all keys were last read."""
    shape: str = ""
    """Which columns and types rows had; if it changes, a whole reading is needed."""
    encoding: str = ""
    """What was read by its configuration, and how rows were encoded; if it changes, everything is read again."""
    without_record: tuple[int, int] | None = None
    """The rows of the last whole reading that had a key and could not become records: how many, and a fingerprint."""
    position: Any = None
    """Private to the source: any JSON value."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows in any order, each key at most once. With `Extent.keys` the batches have only the key columns."""

    extent: Extent
    batches: Iterator[pa.RecordBatch]
    values: tuple[str, ...] = ()
    """The columns of the value."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a source returned, as of one moment. Its readings must be consumed one after the other."""

    readings: Sequence[Reading]
    progress: Progress
    """Valid once the differences of all readings are in the topic."""


class Hints(Protocol):
    """An external system that tells which rows were written. It may leave some out: all rows are read at each interval
    as without it."""

    @property
    def lacks(self) -> str | None:
        """Why it tells nothing, or not everything; for people."""

    def wait(self, seconds: float) -> bool:
        """Until it told something, or so long; whether it did. Raises Retryable if it may have left something out."""

    def ask(self, progress: Progress, columns: Sequence[str] | None) -> AbstractContextManager[Answer | None]:
        """The rows that it told of since the last call, as `Source.ask`."""

    def close(self) -> None: ...


class Source(Protocol):
    """An external system with rows that have keys."""

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns."""

    @property
    def readings_until_deleted(self) -> int:
        """After how many whole readings without it, one after the other, a key is deleted: 1 if an answer is of one
        moment, 2 if rows may hide from one reading while they move."""

    @property
    def may_rest(self) -> bool:
        """Whether it may answer that nothing has happened: then what others have written to the topic would stay."""

    @property
    def hints(self) -> Hints | None:
        """Between two readings. Its own `ask` begins them anew."""

    def ask(self, progress: Progress, columns: Sequence[str] | None) -> AbstractContextManager[Answer | None]:
        """What happened to the rows since `progress`; None if certainly nothing did.

        `columns`: those that the encoder needs; None: those that the user chose, or all. The batches of an answer are
        complete and correct, or an error is raised before the last one: Retryable if it may pass, ConfigError if the
        user must change something.
        """
