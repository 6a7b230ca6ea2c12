"""The two forms of a row in Redis: the script's arguments for it, and how it is read back."""

import re
from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from stores.external.protocol import StoredRows, VersionedRows
from stores.external.redis.scripts import HASHES, PERSIST_HASHES, PERSIST_TEXTS, TEXTS
from stores.external.texts import json_objects_of, texts_of

_VERSION = re.compile(rb'\{"_version": (\d+)[,}]')

Texts = tuple[bytes | None, ...] | None


class RedisRows(Protocol):
    """The interface of a form of rows."""

    @property
    def script(self) -> str: ...

    @property
    def persist(self) -> str:
        """The script that removes the time to live of rows."""

    @property
    def read_command(self) -> str: ...

    @property
    def kind(self) -> str:
        """The Redis type of the keys, for SCAN's filter."""

    def head(self, ttl_ms: int, marker_ms: int) -> list[Any]:
        """The script's arguments before those of the rows."""

    def arguments(self, rows: VersionedRows, seen: Sequence[int | None]) -> list[tuple[Any, ...]]:
        """The script's arguments for each row."""

    def spelled(self, values: pa.StructArray) -> list[Texts]: ...

    def read(self, answer: Any) -> tuple[int | None, Texts, bool]:
        """Version, texts, and whether it is a living row, from the read command's answer."""


class HashRows:
    """A hash: one field per column (none for null), `_version`, and for a deleted key `_deleted`."""

    script, persist = HASHES, PERSIST_HASHES
    read_command = "HGETALL"
    kind = "hash"

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._fields = [name.encode() for name in columns]

    def head(self, ttl_ms: int, marker_ms: int) -> list[Any]:
        return [ttl_ms, marker_ms, len(self._columns), *self._columns]

    def arguments(self, rows: VersionedRows, seen: Sequence[int | None]) -> list[tuple[Any, ...]]:
        columns = [texts_of(pc.struct_field(rows.values, index)) for index in range(len(self._columns))]
        masks = self._masks(rows.values, columns)
        values = (
            pc.fill_null(column, b"" if pa.types.is_binary(column.type) else "").to_pylist() for column in columns
        )
        versions = rows.versions.to_pylist()
        before = ("" if one is None else one for one in seen)
        return list(zip(versions, before, masks, *values, strict=True))

    def _masks(self, values: pa.StructArray, columns: Sequence[pa.Array]) -> list[str]:
        if values.null_count == 0 and all(column.null_count == 0 for column in columns):
            return [""] * len(values)
        flags = [pc.if_else(column.is_valid(), "1", "0") for column in columns]
        masks = pc.binary_join_element_wise(*flags, "") if flags else pa.array([""] * len(values))
        masks = pc.if_else(values.is_valid(), masks, "-")
        return list(masks.to_pylist())

    def spelled(self, values: pa.StructArray) -> list[Texts]:
        columns = [
            texts_of(pc.struct_field(values, i)).cast(pa.binary()).to_pylist() for i in range(len(self._columns))
        ]
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(values)
        return [row if valid else None for row, valid in zip(rows, values.is_valid().to_pylist(), strict=True)]

    def read(self, answer: Any) -> tuple[int | None, Texts, bool]:
        if not answer:
            return None, None, False
        version = answer.get(b"_version")
        number = int(version) if version is not None and version.isdigit() else None
        if b"_deleted" in answer:
            return number, None, False
        extra = answer.keys() - {*self._fields, b"_version"}
        # An additional field makes the row different from what we wrote.
        texts = (*(answer.get(field) for field in self._fields), *(answer[field] for field in sorted(extra)))
        return number, texts, True


class TextRows:
    """A string: the row as a JSON object, `_version` first."""

    script, persist = TEXTS, PERSIST_TEXTS
    read_command = "GET"
    kind = "string"

    def head(self, ttl_ms: int, marker_ms: int) -> list[Any]:
        return [ttl_ms, marker_ms]

    def arguments(self, rows: VersionedRows, seen: Sequence[int | None]) -> list[tuple[Any, ...]]:
        versions = rows.versions.to_pylist()
        objects = json_objects_of(rows.values).to_pylist()
        before = ("" if one is None else one for one in seen)
        return [
            (version, was, "" if text is None else f'{{"_version": {version}, {text}}}')
            for version, was, text in zip(versions, before, objects, strict=True)
        ]

    def spelled(self, values: pa.StructArray) -> list[Texts]:
        return [None if text is None else (text.encode(),) for text in json_objects_of(values).to_pylist()]

    def read(self, answer: Any) -> tuple[int | None, Texts, bool]:
        if answer is None:
            return None, None, False
        found = _VERSION.match(answer)
        if found is None:
            return None, (answer,), True
        if answer[found.end(1) :] == b', "_deleted": true}':
            return int(found[1]), None, False
        return int(found[1]), (answer[found.end() :].strip()[:-1],), True


def rows_read(keys: Sequence[bytes], answers: Sequence[Any], form: RedisRows, *, living: bool) -> StoredRows:
    """The rows that were read of these keys. `living`: only the rows that are not deleted."""
    read = [(key, *form.read(answer)) for key, answer in zip(keys, answers, strict=True)]
    kept = [row for row in read if row[3] or not living]
    return StoredRows([row[0] for row in kept], [row[1] for row in kept], [row[2] for row in kept])
