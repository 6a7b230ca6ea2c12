"""A table holds what the topic says or does not take it: PostgreSQL's casts change values without a word."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from enrich.dev import Addresses
from stores.errors import BadRecord, ConfigError
from stores.external import PostgresLocation, PostgresStore, VersionedRows
from tests.support.waiting import wait_until

_NUMBERS = itertools.count()

# A type; texts that it holds; texts that it would cut, round or read in another way.
_TYPES: tuple[tuple[str, Sequence[str], Sequence[str]], ...] = (
    ("text", ["any", " x ", ""], []),
    ("varchar", ["any  "], []),
    ("varchar(3)", ["abc", "äöü", ""], ["abcd", "abc ", "äöüß"]),
    ("char(3)", ["abc", "a", ""], ["abcd", "a ", "abc "]),
    ("bpchar", ["abc"], ["abc "]),
    ("name", ["a" * 63], ["a" * 64]),
    ('"char"', ["a"], ["ab", "é"]),
    ("bit(3)", ["101"], ["1011", "10"]),
    ("varbit(3)", ["1", "101"], ["1011"]),
    ("numeric", ["1.239", "1e3", "NaN"], []),
    ("numeric(5,2)", ["1.23", "1.2", "-0.10", "1.230"], ["1.239", "0.001"]),
    ("numeric(5,-2)", ["1200"], ["1234"]),
    ("money", ["1.23", "$5.00"], ["1.239"]),
    ("smallint", ["5"], []),
    ("bigint", ["9007199254740993"], []),
    ("real", ["0.1", "16777216", "nan", "Infinity", "0.12345678901"], ["16777217"]),
    ("double precision", ["0.1", "1e+300", "9007199254740992"], ["9007199254740993"]),
    ("oid", ["7"], ["-1"]),
    ("boolean", ["true", "f"], []),
    ("date", ["2024-02-29", "infinity", "2024-01-01T00:00:00Z"], ["2024-01-01T10:00:00Z", "2024-01-01 23:00:00-05"]),
    (
        "timestamp",
        ["2024-01-01T00:00:00.123456Z", "2024-01-01", "infinity", "2024-01-01T00:00:00.120000000Z"],
        ["2024-01-01T00:00:00+02:00", "2024-01-01T00:00:00.1234567Z"],
    ),
    ("timestamp(0)", ["2024-01-01T00:00:00.000000Z"], ["2024-01-01T00:00:00.5Z"]),
    ("timestamptz", ["2024-01-01T00:00:00+02:00", "-infinity"], ["2024-01-01T00:00:00.123456789Z"]),
    ("timestamptz(3)", ["2024-01-01T00:00:00.123Z"], ["2024-01-01T00:00:00.1234Z"]),
    ("time", ["10:00", "10:00:00.5"], ["10:00:00+02", "2024-01-01T10:00:00Z"]),
    ("time(0)", ["10:00:00"], ["10:00:00.5"]),
    ("timetz", ["10:00:00+02"], ["2024-01-01 10:00:00+02"]),
    ("interval", ["1 day", "PT1.5S"], ["00:00:00.1234567"]),
    ("interval(0)", ["1 day"], ["1.5 seconds"]),
    ("interval year", ["2 years"], ["2 years 3 days"]),
    ("tsrange", ["[2024-01-01 00:00:00,2024-01-02 00:00:00)"], ["[2024-01-01 00:00:00+02,2024-01-02 00:00:00+02)"]),
    ("daterange", ["[2024-01-01,2024-01-02)"], ["[2024-01-01 10:00:00,2024-01-02)"]),
    ("uuid", ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"], []),
    ("json", ['{"a":1,"a":2}'], []),
    ("jsonb", ['{"a":1,"b":{"a":2}}', "[1.0]"], ['{"a":1,"a":2}', '{"b":{"a":1,"a":2}}']),
    ("varchar(3)[]", ['["abc","a"]', "[null]", "[]"], ['["abc","abcd"]']),
    ("bit(2)[]", ['["10"]'], ['["100"]']),
    ("numeric(5,2)[]", ["[1.23]"], ["[1.239]"]),
    ("text[]", ['["any length"]'], []),
    ("DOMAIN:varchar(3)", ["abc"], ["abcd"]),
    ("DOMAIN:DOMAIN:varchar(3)", ["abc"], ["abcd"]),
    ("DOMAIN:varchar(3)[]", ['["abc"]'], ['["abcd"]']),
    ("ARRAY_OF_DOMAIN:varchar(3)", ['["abc"]'], ['["abcd"]']),
)


@contextmanager
def _database(servers: Addresses) -> Iterator[Any]:
    with psycopg.connect(servers.postgres_dsn or "", autocommit=True) as connection:
        yield connection


def _domain(connection: Any, type_: str) -> str:
    """The type's name, with the domains beneath it made."""
    kind, _, rest = type_.partition(":")
    if not rest:
        return type_
    name = f"d{next(_NUMBERS)}"
    connection.execute(f"CREATE DOMAIN {name} AS {_domain(connection, rest)}")
    return name if kind == "DOMAIN" else f"{name}[]"


def _rows(keys: Sequence[str], columns: dict[str, list[str | None]]) -> VersionedRows:
    arrays = [pa.array(texts, pa.string()) for texts in columns.values()]
    values = pa.StructArray.from_arrays(arrays, list(columns)) if arrays else pa.array([{}] * len(keys), pa.struct([]))
    return VersionedRows(pa.array([key.encode() for key in keys]), pa.array([1] * len(keys), pa.int64()), values)


@pytest.mark.parametrize("delete", ["soft", "hard"])
def test_what_a_column_would_change_in_silence_is_refused_with_its_name(servers: Addresses, delete: str) -> None:
    """One column a type, one row a text."""
    table, mark = f"y{next(_NUMBERS)}", ", deleted boolean" if delete == "soft" else ""
    with _database(servers) as connection:
        types = {f"c{number}": _domain(connection, type_) for number, (type_, _, _) in enumerate(_TYPES)}
        columns = ", ".join(f"{name} {type_}" for name, type_ in types.items())
        connection.execute(f"CREATE TABLE {table} (id text PRIMARY KEY, {columns}, version bigint{mark})")
        cells = [
            (f"{kind} {name} {text!r}", name, text)
            for name, (_, held, changed) in zip(types, _TYPES, strict=True)
            for kind, texts in (("held", held), ("changed", changed))
            for text in texts
        ]
        by_column = {name: [text if column == name else None for _, column, text in cells] for name in types}
        batch = _rows([key for key, _, _ in cells], by_column)
        place = PostgresLocation(
            table, ["id"], {name: name for name in types}, deleted_column="deleted" if delete == "soft" else None
        )
        with closing(PostgresStore(servers.postgres_dsn or "", place)) as store:
            written = store.write(batch)
            written_keys = {key for (key,) in connection.execute(f"SELECT id FROM {table}")}  # noqa: S608 - our name
            assert written_keys == {key for key, _, _ in cells if key.startswith("held")}
            assert {cells[index][0] for index in written.refused} == {
                key for key, _, _ in cells if key.startswith("changed")
            }
            for index, error in written.refused.items():
                assert cells[index][1] in error.what and str(error.where).endswith(table)
            held = [index for index, (key, _, _) in enumerate(cells) if key.startswith("held")]
            assert len(store.spelled(batch.take(held).values)) == len(held)
            with pytest.raises(BadRecord):
                store.spelled(batch.take([next(iter(written.refused))]).values)


@pytest.mark.parametrize(
    ("column", "keys", "kept"),
    [
        ("varchar(10)", ["customer-0001", "customer-0002", "customer-0"], ["customer-0"]),
        ("char(3)", ["a", "a ", "b"], ["a", "b"]),
        ("int", ["1", "01", "+1", " 1", "0x1"], ["1"]),
        ("numeric(5,2)", ["1.00", "1.001", "1", "1.10"], ["1.00", "1.10"]),
        ("boolean", ["true", "t", "yes"], ["true"]),
        ("timestamptz", ["2024-01-01 00:00:00+00", "2024-01-01 02:00:00+02"], ["2024-01-01 00:00:00+00"]),
        ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"], None),
        ("int[]", ["[1,2]", "[1, 2]"], ["[1,2]"]),
        ("numeric", ["1.0", "2", "1.00"], None),
        ("interval", ["1 day", "24:00:00"], None),
    ],
)
@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one by one"])
def test_two_keys_never_become_one_row(
    servers: Addresses, column: str, keys: list[str], kept: list[str] | None, together: bool
) -> None:
    table = f"y{next(_NUMBERS)}"
    with _database(servers) as connection:
        connection.execute(f"CREATE TABLE {table} (id {column} PRIMARY KEY, k text, version bigint, deleted boolean)")
        place = PostgresLocation(table, ["id"], {"k": "k"})
        with closing(PostgresStore(servers.postgres_dsn or "", place)) as store:
            for some in [keys] if together else [[key] for key in keys]:
                refused = store.write(_rows(some, {"k": list(some)})).refused
                assert all("id" in error.what for error in refused.values())
            tombstones = [key for key in keys if key not in (kept or keys[: 1 if len(keys) < 3 else 2])]
            gone = VersionedRows(
                pa.array([key.encode() for key in tombstones]),
                pa.array([2] * len(tombstones), pa.int64()),
                pa.nulls(len(tombstones), pa.struct([("k", pa.string())])),
            )
            assert len(store.write(gone).refused) == len(tombstones)
        rows = dict(connection.execute(f"SELECT k, deleted FROM {table}").fetchall())  # noqa: S608 - our name
    assert not any(rows.values())
    assert set(rows) == set(kept) if kept is not None else set(rows) <= set(keys)


def test_a_tombstone_of_a_key_that_is_spelled_otherwise_removes_nothing_of_the_same_batch(servers: Addresses) -> None:
    table = f"y{next(_NUMBERS)}"
    with _database(servers) as connection:
        connection.execute(f"CREATE TABLE {table} (id numeric PRIMARY KEY, k text, version bigint)")
        place = PostgresLocation(table, ["id"], {"k": "k"}, deleted_column=None)
        rows = VersionedRows(pa.array([b"1.0", b"1.00"]), pa.array([1, 2], pa.int64()), pa.array([{"k": "x"}, None]))
        with closing(PostgresStore(servers.postgres_dsn or "", place)) as store:
            assert set(store.write(rows).refused) == {1}
        assert connection.execute(f"SELECT k FROM {table}").fetchall() == [("x",)]  # noqa: S608 - our name


@pytest.mark.parametrize(
    ("column", "text"), [("tsquery", "a &"), ("jsonb", "[" * 100_000), ("json", "[" * 100_000), ("text", "a\0b")]
)
def test_a_value_that_the_server_stumbles_over_is_a_bad_record_and_nothing_worse(
    servers: Addresses, column: str, text: str
) -> None:
    table = f"y{next(_NUMBERS)}"
    with _database(servers) as connection:
        connection.execute(f"CREATE TABLE {table} (id text PRIMARY KEY, k {column}, version bigint, deleted boolean)")
    place = PostgresLocation(table, ["id"], {"k": "k"})
    with closing(PostgresStore(servers.postgres_dsn or "", place)) as store:
        store.check()
        with suppress(BadRecord):
            assert set(store.write(_rows(["a"], {"k": [text]})).refused) == {0}
        assert store.write(_rows(["b"], {"k": [None]})).applied == 1


ODD_KEYS = {
    "half of a character": r'["\ud800","x"]',
    "a zero": r'["a\u0000","x"]',
    "nested": "[" * 200_000,
    "too few": '["a"]',
    "no text": '[null,"x"]',
}


@pytest.mark.parametrize("delete", ["soft", "hard"])
@pytest.mark.parametrize("key", ODD_KEYS.values(), ids=ODD_KEYS)
def test_a_key_of_parts_that_no_table_holds_is_a_bad_record_beside_good_ones(
    servers: Addresses, key: str, delete: str
) -> None:
    table, mark = f"y{next(_NUMBERS)}", ", deleted boolean" if delete == "soft" else ""
    with _database(servers) as connection:
        connection.execute(f"CREATE TABLE {table} (a text, b text, v text, version bigint{mark}, PRIMARY KEY (a, b))")
        place = PostgresLocation(table, ["a", "b"], {"v": "v"}, deleted_column="deleted" if delete == "soft" else None)
        with closing(PostgresStore(servers.postgres_dsn or "", place)) as store:
            written = store.write(_rows(['["good","x"]', key, r'["\ud83d\ude00",true]'], {"v": ["1", "2", "3"]}))
            assert (written.applied, list(written.refused)) == (2, [1])
            assert "a JSON array of 2 texts or numbers" in str(written.refused[1])
            for ask in (store.spelled_keys, store.fetch):
                with pytest.raises(BadRecord):
                    ask([key.encode()])
        found = connection.execute(f"SELECT a, b, v FROM {table} ORDER BY v")  # noqa: S608 - our own name
        assert list(found) == [("good", "x", "1"), ("😀", "true", "3")]


def test_names_with_a_percent_sign_are_written_read_and_listed(servers: Addresses) -> None:
    table = f"y{next(_NUMBERS)}%s"
    with _database(servers) as connection:
        connection.execute(
            f'CREATE TABLE "{table}" ("id%" text PRIMARY KEY, "margin%" varchar(4), "v%" bigint, "d%" boolean)'
        )
    place = PostgresLocation(f'"{table}"', ["id%"], {"margin%": "m"}, version_column="v%", deleted_column="d%")
    with closing(PostgresStore(servers.postgres_dsn or "", place)) as store:
        assert store.write(_rows(["a", "b"], {"m": ["5%", "%s%%x"]})).refused.keys() == {1}
        assert [list(part.keys) for part in store.scan()] == [[b"a"]]
        assert store.fetch([b"a"]).texts == [(b"5%",)]


def test_a_deferrable_primary_key_is_refused_at_once(servers: Addresses) -> None:
    table = f"y{next(_NUMBERS)}"
    with _database(servers) as connection:
        connection.execute(
            f"CREATE TABLE {table} (id text PRIMARY KEY DEFERRABLE, plan text, version bigint, deleted boolean)"
        )
    with (
        closing(PostgresStore(servers.postgres_dsn or "", PostgresLocation(table, ["id"], {"plan": "plan"}))) as store,
        pytest.raises(ConfigError, match="deferrable"),
    ):
        store.check()


@pytest.mark.parametrize("delete", ["soft", "hard"])
@pytest.mark.parametrize(
    ("type_", "value", "instead"),
    [
        ("varchar(3)", "gold", "text"),
        ("int", "3000000000", "bigint"),
        ("numeric(5,2)", "1.239", "numeric(6,3)"),
    ],
)
def test_a_row_is_taken_once_its_column_has_a_type_that_holds_it(
    servers: Addresses, delete: str, type_: str, value: str, instead: str
) -> None:
    """As a dead letter says that it should, and without a new start."""
    table, mark = f"y{next(_NUMBERS)}", ", deleted boolean" if delete == "soft" else ""
    with _database(servers) as connection:
        connection.execute(f"CREATE TABLE {table} (id text PRIMARY KEY, c {type_}, version bigint{mark})")
        place = PostgresLocation(table, ["id"], {"c": "c"}, deleted_column="deleted" if delete == "soft" else None)
        with closing(PostgresStore(servers.postgres_dsn or "", place)) as store:
            assert [*_written(store, _rows(["ann"], {"c": [value]}))] == [0]
            connection.execute(f"ALTER TABLE {table} ALTER COLUMN c TYPE {instead}")
            wait_until(lambda: not _written(store, _rows(["ann"], {"c": [value]})), what="a look at the table")
        assert connection.execute(f"SELECT c::text FROM {table}").fetchall() == [(value,)]  # noqa: S608 - our name


def _written(store: PostgresStore, rows: VersionedRows) -> Mapping[int, BadRecord]:
    """What is refused of one row."""
    try:
        return store.write(rows).refused
    except BadRecord as error:
        return {0: error}
