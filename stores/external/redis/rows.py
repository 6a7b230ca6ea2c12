"""The two forms of a row in Redis: the script's arguments for it, and how it is read back."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from stores.external.protocol import StoredRows, VersionedRows
from stores.external.redis.scripts import HASHES, PERSIST_HASHES, PERSIST_TEXTS, TEXTS
from stores.external.texts import json_objects_of, texts_of
from stores.versions import LARGEST_VERSION, whole_number

_VERSION = re.compile(rb'\{"_version": (\d+)(?:, "_release": (\d+))?(?=[,}])')

_DIGITS = len(str(LARGEST_VERSION))

Texts = tuple[bytes | None, ...] | None
Releases = Sequence[tuple[int, int]] | None
"""Each row's release, and the seen one. None: the rows have none, and nothing is sent for them."""


class ReadRow(NamedTuple):
    version: int | None
    texts: Texts
    is_living: bool
    release: int = 0


_NO_ROW = ReadRow(None, None, is_living=False)


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

    def head(self, ttl_ms: int, marker_ms: int, *, released: bool) -> list[Any]:
        """The script's arguments before those of the rows. `released`: the rows have releases."""

    def arguments(self, rows: VersionedRows, seen: Sequence[int | None], releases: Releases) -> list[tuple[Any, ...]]:
        """The script's arguments for each row."""

    def spelled(self, values: pa.StructArray) -> list[Texts]: ...

    def read(self, answer: Any) -> ReadRow:
        """The row of the read command's answer."""


class HashRows:
    """A hash: one field per column (none for null), `_version`, `_release` unless it is 0, and for a deleted key
    `_deleted`."""

    script, persist = HASHES, PERSIST_HASHES
    read_command = "HGETALL"
    kind = "hash"

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._fields = [name.encode() for name in columns]

    def head(self, ttl_ms: int, marker_ms: int, *, released: bool) -> list[Any]:
        return [ttl_ms, marker_ms, int(released), len(self._columns), *self._columns]

    def arguments(self, rows: VersionedRows, seen: Sequence[int | None], releases: Releases) -> list[tuple[Any, ...]]:
        columns = [texts_of(pc.struct_field(rows.values, index)) for index in range(len(self._columns))]
        masks = self._masks(rows.values, columns)
        values = (
            pc.fill_null(column, b"" if pa.types.is_binary(column.type) else "").to_pylist() for column in columns
        )
        versions = rows.versions.to_pylist()
        before = ("" if one is None else one for one in seen)
        of_releases = () if releases is None else zip(*releases, strict=True)
        return list(zip(versions, before, masks, *of_releases, *values, strict=True))

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

    def read(self, answer: Any) -> ReadRow:
        if not answer:
            return _NO_ROW
        number, of_release = _number(answer.get(b"_version")), _number(answer.get(b"_release")) or 0
        if b"_deleted" in answer:
            return ReadRow(number, None, is_living=False, release=of_release)
        extra = answer.keys() - {*self._fields, b"_version", b"_release"}
        # An additional field makes the row different from what we wrote.
        texts = (*(answer.get(field) for field in self._fields), *(answer[field] for field in sorted(extra)))
        return ReadRow(number, texts, is_living=True, release=of_release)


class TextRows:
    """A string: the row as a JSON object, `_version` first, then `_release` unless it is 0."""

    script, persist = TEXTS, PERSIST_TEXTS
    read_command = "GET"
    kind = "string"

    def head(self, ttl_ms: int, marker_ms: int, *, released: bool) -> list[Any]:
        return [ttl_ms, marker_ms, int(released)]

    def arguments(self, rows: VersionedRows, seen: Sequence[int | None], releases: Releases) -> list[tuple[Any, ...]]:
        versions = rows.versions.to_pylist()
        objects = json_objects_of(rows.values).to_pylist()
        before = ("" if one is None else one for one in seen)
        if releases is None:
            return [
                (version, was, "" if text is None else f'{{"_version": {version}, {text}}}')
                for version, was, text in zip(versions, before, objects, strict=True)
            ]
        return [
            (version, was, "" if text is None else f'{{"_version": {version}{_of_release(both[0])}, {text}}}', *both)
            for version, was, text, both in zip(versions, before, objects, releases, strict=True)
        ]

    def spelled(self, values: pa.StructArray) -> list[Texts]:
        return [None if text is None else (text.encode(),) for text in json_objects_of(values).to_pylist()]

    def read(self, answer: Any) -> ReadRow:
        if answer is None:
            return _NO_ROW
        found = _VERSION.match(answer)
        version = None if found is None else _number(found[1])
        if found is None or version is None:
            return ReadRow(None, (answer,), is_living=True)
        release = _number(found[2]) or 0
        if answer[found.end() :] == b', "_deleted": true}':
            return ReadRow(version, None, is_living=False, release=release)
        return ReadRow(version, (answer[found.end() + 1 :].strip()[:-1],), is_living=True, release=release)


def _number(text: bytes | None) -> int | None:
    """A version or a release."""
    return whole_number(text, most_digits=_DIGITS)


def _of_release(release: int) -> str:
    return f', "_release": {release}' if release else ""


def releases_of(rows: VersionedRows, seen: pa.Int64Array | None) -> Releases:
    """None if all are 0."""
    known = [None if each is None or not pc.max(each).as_py() else each for each in (rows.releases, seen)]
    if all(each is None for each in known):
        return None
    both = ([0] * len(rows) if each is None else pc.fill_null(each, 0).to_pylist() for each in known)
    return list(zip(*both, strict=True))


def rows_read(keys: Sequence[bytes], answers: Sequence[Any], form: RedisRows, *, living: bool) -> StoredRows:
    """The rows that were read of these keys. `living`: only the rows that are not deleted."""
    read = [(key, form.read(answer)) for key, answer in zip(keys, answers, strict=True)]
    kept = [(key, row) for key, row in read if row.is_living or not living]
    return StoredRows(
        [key for key, _ in kept],
        [row.version for _, row in kept],
        [row.texts for _, row in kept],
        [row.release for _, row in kept],
    )
