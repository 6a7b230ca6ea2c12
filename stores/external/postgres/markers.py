"""The marks of keys whose rows were removed (`delete: hard`): a table of ours, beside the user's. An older row must not
come back."""

import time
from typing import Any

import psycopg
import pyarrow as pa

from stores.errors import ConfigError
from stores.external.postgres.statements import array_literal

TABLE = "enrich_sync_markers"
MARKERS = """
CREATE TABLE IF NOT EXISTS enrich_sync_markers (
    target text NOT NULL, key bytea NOT NULL, version bigint NOT NULL, expires timestamptz NOT NULL, release bigint,
    PRIMARY KEY (target, key))
"""
_HAS_RELEASES = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_attribute
               WHERE attrelid = to_regclass('enrich_sync_markers') AND attname = 'release' AND NOT attisdropped)
"""
# Marks have the name of their table as it was given. Found by a search path, it may be that of others, too.
_MAY_BE_OTHERS = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_class t, pg_catalog.pg_class m
               WHERE t.oid = to_regclass(%s) AND m.oid = to_regclass('enrich_sync_markers')
               AND array_length(parse_ident(%s), 1) = 1 AND t.relnamespace <> m.relnamespace)
"""
# For a table from before there were releases. The column is only named where a route has them.
_ADD_RELEASES = "ALTER TABLE enrich_sync_markers ADD COLUMN IF NOT EXISTS release bigint"

_MARK = """
INSERT INTO enrich_sync_markers AS m (target, key, version, expires)
SELECT %s, s.k, s.v, now() + %s * interval '1 millisecond' FROM unnest(%s::bytea[], %s::bigint[]) AS s(k, v)
ON CONFLICT (target, key) DO UPDATE SET version = excluded.version, expires = excluded.expires
WHERE excluded.version > m.version
"""
_MARK_OF_RELEASE = """
INSERT INTO enrich_sync_markers AS m (target, key, version, release, expires)
SELECT %s, s.k, s.v, s.r, now() + %s * interval '1 millisecond'
FROM unnest(%s::bytea[], %s::bigint[], %s::bigint[]) AS s(k, v, r)
ON CONFLICT (target, key)
DO UPDATE SET version = excluded.version, release = excluded.release, expires = excluded.expires
WHERE (excluded.version, excluded.release) > (m.version, coalesce(m.release, 0))
"""
_UNMARK_SEEN = """
DELETE FROM enrich_sync_markers m USING unnest(%s::bytea[], %s::bigint[]) AS s(k, v)
WHERE m.target = %s AND m.key = s.k AND m.version <= s.v
"""
_UNMARK_SEEN_OF_RELEASE = """
DELETE FROM enrich_sync_markers m USING unnest(%s::bytea[], %s::bigint[], %s::bigint[]) AS s(k, v, r)
WHERE m.target = %s AND m.key = s.k AND (m.version, coalesce(m.release, 0)) <= (s.v, s.r)
"""
_FORGET = "DELETE FROM enrich_sync_markers WHERE target = %s AND expires < now()"
_FORGET_EVERY_S = 3_600.0


class Markers:
    """The marks of one target, within a transaction of the caller, who is their only writer."""

    def __init__(self, target: str, kept_ms: int, *, released: bool) -> None:
        """`released`: versions come with releases."""
        self._target = target
        self._kept_ms = kept_ms
        self._released = released
        self._mark = _MARK_OF_RELEASE if released else _MARK
        self._unmark_seen = _UNMARK_SEEN_OF_RELEASE if released else _UNMARK_SEEN
        self._next_forget = 0.0

    def prepare(self, connection: Any, where: str | None) -> None:
        """Raises ConfigError if the table has no column for releases and this user may not add it."""
        if not self._released or connection.execute(_HAS_RELEASES).fetchone() == (True,):
            return
        try:
            connection.execute(_ADD_RELEASES)
        except psycopg.errors.InsufficientPrivilege as error:
            raise ConfigError(
                f"the table {TABLE}, in which the sync service remembers deleted keys, has no column for their "
                "releases, and this user may not add it",
                where=where,
                next_step=f"let its owner run: {_ADD_RELEASES}",
            ) from error

    def remarks(self, connection: Any) -> list[str]:
        """Warnings."""
        if connection.execute(_MAY_BE_OTHERS, [self._target, self._target]).fetchone() != (True,):
            return []
        return [
            f"deleted keys of {self._target} are remembered under this name in {TABLE} of another schema: if a table "
            "of the same name in a third schema shares it, each lacks rows that the other one has deleted; name the "
            "table with its schema"
        ]

    def mark(self, connection: Any, keys: pa.BinaryArray, versions: list[str]) -> int:
        """Returns how many marks are new or newer. `versions`: array literals."""
        marked = connection.execute(self._mark, [self._target, self._kept_ms, array_literal(keys), *versions]).rowcount
        if time.monotonic() >= self._next_forget:
            connection.execute(_FORGET, [self._target])
            self._next_forget = time.monotonic() + _FORGET_EVERY_S
        return int(marked)

    def unmark_seen(self, connection: Any, keys: pa.BinaryArray, seen: list[str]) -> None:
        """Removes the marks that are not newer than what was seen."""
        connection.execute(self._unmark_seen, [array_literal(keys), *seen, self._target])
