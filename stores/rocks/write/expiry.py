"""Removes versions that no look-up within a table's history can return. It reads only those that are due."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from stores.answers import raised
from stores.rocks.database import Database
from stores.rocks.layout import QUEUE, due_prefix, parse_due, prefix
from stores.rocks.state import TableState


@dataclass(frozen=True, slots=True)
class Expired:
    """What one pass removes from one table, and the table's state afterwards."""

    table: TableState
    deletes: Sequence[bytes]


def expired(database: Database, table: TableState, horizon: int, limit: int) -> Expired:
    """At most `limit` of the versions that are due at the horizon, the longest due first."""
    rows = database.scan(prefix(QUEUE, table.table_id), due_prefix(table.table_id, horizon + 1))
    deletes: list[bytes] = []
    floors = dict(table.floors)
    for key, value in islice(rows, limit):
        due = parse_due(key, value)
        raised(floors, due.partition, due.successor_offset, due.successor_timestamp)
        deletes += (key, due.history_key)
    return Expired(replace(table, floors=floors), deletes)
