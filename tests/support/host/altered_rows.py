"""Changes rows of a store on disk behind everybody's back, while nobody writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stores.rocks import Sizes
from stores.rocks.database import Database
from stores.rocks.digest import digest_of
from stores.rocks.layout import LATEST, Entry, decode, encode, end_of, prefix
from stores.rocks.state import read_state


def entries_of(store: Path, table: str) -> dict[bytes, list[Entry]]:
    """Key -> the newest entry of each partition."""
    database = Database.primary(store / "db", Sizes())
    begin = prefix(LATEST, read_state(database).tables[table].table_id)
    entries = {key[3:]: decode(row) for key, row in database.scan(begin, end_of(begin))}
    database.close()
    return entries


def alter(store: Path, table: str, changes: Mapping[bytes, Sequence[Entry]], *, secretly: bool = True) -> None:
    """`changes`: key -> its entries, or none to remove it. Secretly: count and digest are made to fit."""
    database = Database.primary(store / "db", Sizes())
    state = read_state(database)
    begin = prefix(LATEST, state.tables[table].table_id)
    puts = {begin + key: encode(entries) for key, entries in changes.items() if entries}
    database.write(puts, [begin + key for key, entries in changes.items() if not entries])
    if secretly:
        rows = [(key[3:], entry) for key, row in database.scan(begin, end_of(begin)) for entry in decode(row)]
        digest = digest_of([k for k, _ in rows], [e.partition for _, e in rows], [e.offset for _, e in rows])
        fitting = replace(state.tables[table], rows=len({key for key, _ in rows}), digest=digest)
        database.write(replace(state, tables={**state.tables, table: fitting}).rows(table))
    database.flush()
    database.close()
