"""Rows of a table as commands show them: looked up, scanned, or with their history. Only one batch is in memory."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from enrich.host.reader.views import FreshView
from stores.protocol import TableSpec
from stores.table import RowVersion, Status

_BATCH = 1_000


@dataclass(frozen=True)
class Row:
    """A key with the version that answered. `value` is None for a tombstone, and if no version answered."""

    key: str
    status: str
    value: dict[str, Any] | None
    partition: int | None
    offset: int | None
    timestamp: int | None
    """The record's timestamp in milliseconds."""


def rows_of(view: FreshView, keys: Sequence[str]) -> list[Row]:
    """The latest version of each key, in the order of the keys."""
    found = view.lookup(pa.array(keys, pa.string()), view.columns.names)
    columns = (found.status, found.values, found.partition, found.offset, found.timestamp.cast(pa.int64()))
    return [
        Row(key, Status(status).name.lower(), value, *place)
        for key, status, value, *place in zip(keys, *(column.to_pylist() for column in columns), strict=True)
    ]


def decoded(spec: TableSpec, versions: Iterable[RowVersion]) -> Iterator[Row]:
    """Row versions with their values decoded."""
    pending = iter(versions)
    while batch := list(itertools.islice(pending, _BATCH)):
        rows = spec.decoder.decode(pa.array([version.value for version in batch], pa.binary())).rows
        for version, value in zip(batch, rows.to_pylist(), strict=True):
            status = Status.DELETED if version.value is None else Status.HIT
            key = version.key.decode("utf-8", "backslashreplace")
            yield Row(key, status.name.lower(), value, version.partition, version.offset, version.timestamp)
