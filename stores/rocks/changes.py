"""The change feed: which keys each publication changed, so that a cache needs to forget only these.

A ring: each publication overwrites the entry of the one `ENTRIES` before it, in its own write. So nothing has to be
removed, and a reader that looks for an overwritten entry finds another counter in its place.
"""

import struct
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, Protocol

import pyarrow as pa

from stores.rocks.layout import CHANGES
from stores.table import Seq

ENTRIES = 1024
"""Half a minute at 35 publications per second. A reader that comes less often must forget everything."""
_LARGEST = 32 * 1024
"""Bytes of an entry. Larger changes are written as EVERYTHING: forgetting so many keys costs as much as forgetting all.
"""

_COUNTER = struct.Struct("<q")
_TABLE = struct.Struct("<HI")  # length of the name, number of keys; then the name, the lengths of the keys, the keys
_EVERYTHING = 0xFFFF_FFFF


class Everything(Enum):
    EVERYTHING = "everything"


EVERYTHING: Final = Everything.EVERYTHING

TableChanges = frozenset[bytes] | Everything
"""Keys as the table stores them (for a cidr table see network_rows.py), those included that are now deleted."""
Changes = Mapping[str, TableChanges] | Everything
"""Tables that it does not name have not changed."""


class Rows(Protocol):
    def get_many(self, keys: list[bytes]) -> list[bytes | None]: ...


def entry(counter: int, changed: Mapping[str, pa.BinaryArray | Everything]) -> dict[bytes, bytes]:
    """The row that a publication writes."""
    parts = [_COUNTER.pack(counter)]
    room = _LARGEST
    for name, keys in changed.items():
        part = _table(name, keys, room)
        room -= len(part)
        parts.append(part)
    return {_row_key(counter): b"".join(parts)}


def changes_between(stored: Rows, since: Seq, now: Seq) -> Changes:
    """What changed after `since`, up to `now`; EVERYTHING if an entry between them is gone."""
    if since[:2] != now[:2] or not 0 <= now.counter - since.counter <= ENTRIES:
        return EVERYTHING
    counters = range(since.counter + 1, now.counter + 1)
    changes: dict[str, set[bytes] | Everything] = {}
    for counter, row in zip(counters, stored.get_many([_row_key(counter) for counter in counters]), strict=True):
        if row is None or _COUNTER.unpack_from(row) != (counter,):
            return EVERYTHING
        for name, keys in _tables(row):
            known = changes.setdefault(name, set())
            if keys is EVERYTHING or known is EVERYTHING:
                changes[name] = EVERYTHING
            else:
                known.update(keys)
    return {name: keys if keys is EVERYTHING else frozenset(keys) for name, keys in changes.items()}


def _table(name: str, keys: pa.BinaryArray | Everything, room: int) -> bytes:
    raw = name.encode()
    # Check the size first: a batch of 10,000 keys must not become Python objects only to be written as EVERYTHING.
    if keys is not EVERYTHING and keys.nbytes <= room:
        distinct = list(dict.fromkeys(keys.to_pylist()))
        lengths = struct.pack(f"<{len(distinct)}I", *map(len, distinct))
        return b"".join([_TABLE.pack(len(raw), len(distinct)), raw, lengths, *distinct])
    return _TABLE.pack(len(raw), _EVERYTHING) + raw


def _tables(row: bytes) -> Iterator[tuple[str, list[bytes] | Everything]]:
    at = _COUNTER.size
    while at < len(row):
        name_length, number = _TABLE.unpack_from(row, at)
        at += _TABLE.size
        name = row[at : at + name_length].decode()
        at += name_length
        if number == _EVERYTHING:
            yield name, EVERYTHING
            continue
        lengths = struct.unpack_from(f"<{number}I", row, at)
        at += 4 * number
        keys = []
        for length in lengths:
            keys.append(row[at : at + length])
            at += length
        yield name, keys


def _row_key(counter: int) -> bytes:
    return CHANGES + (counter % ENTRIES).to_bytes(2, "big")
