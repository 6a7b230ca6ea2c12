"""What a kind of external system has to offer to be a source."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa


class Extent(StrEnum):
    """What it means that a key is missing in a reading."""

    whole = "whole"  # every row is there: a missing key was deleted
    changes = "changes"  # rows that may have changed: nothing
    keys = "keys"  # the keys of every row, and nothing else: a missing key was deleted


@dataclass(frozen=True, slots=True)
class Progress:
    """Up to where a source was read, kept with the rows that were read until then.

    It may be lost or old at any time: then more is read than necessary, and what is known already changes nothing.
    """

    whole_at_ms: int | None = None
    """When a whole reading began last; None asks for one."""
    keys_at_ms: int | None = None
    """When all keys were read last."""
    shape: str = ""
    """What rows looked like; another shape asks for a whole reading."""
    encoding: str = ""
    """How values were made of rows; another encoding asks for everything again."""
    without_record: tuple[int, int] | None = None
    """Which rows of the last whole reading had a key and could not become records: their number, and a fingerprint."""
    position: Any = None
    """The source's own: whatever JSON can hold."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows in any order, each key at most once. With only the keys, batches have the key's columns and no others."""

    extent: Extent
    batches: Iterator[pa.RecordBatch]
    values: tuple[str, ...] = ()
    """The columns that the value is made of."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a source said, as of one moment. The readings are made one after the other."""

    readings: Sequence[Reading]
    progress: Progress
    """Holds once every reading's differences are in the topic."""


class Source(Protocol):
    """An external system with rows that have keys."""

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key."""

    def ask(self, progress: Progress, columns: Sequence[str] | None) -> AbstractContextManager[Answer | None]:
        """What became of the rows since `progress`; None when surely nothing did.

        `columns` names those that the value asks for; None for those that the user chose, or all. The batches of an
        answer are whole and true, or an error is raised before the last one: Retryable when it may pass, ConfigError
        when the user must change something.
        """
