"""What every external store promises of releases: of two equal versions the one of the higher release stays."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from enrich.dev import Addresses
from stores.errors import ConfigError
from stores.external import PostgresLocation, PostgresStore, VersionedRows, VersionedStore
from tests.contract.external.places import RELEASED, UNRELEASED, Place, new_place, released, rows
from tests.support.seed import random_source, rounds

Row = tuple[str | None, int | None] | None


@pytest.fixture(params=RELEASED)
def keeping(request: pytest.FixtureRequest, servers: Addresses) -> Iterator[Place]:
    with new_place(request.param, servers) as made:
        yield made


def orders(store: VersionedStore, *keys: str) -> list[tuple[int | None, int]]:
    """Version and release of each key, as the store says them, also of deleted ones."""
    found = store.fetch([key.encode() for key in keys])
    return list(zip(found.versions, found.releases, strict=True))


def test_of_equal_versions_the_higher_release_wins_and_of_equal_ones_the_first(keeping: Place) -> None:
    store = keeping.store
    store.write(released(("a", 5, 7, ("bad", 1)), ("b", 5, 7, ("first", 1)), ("c", 5, 7, ("stays", 1))))
    again = released(("a", 5, 8, ("good", 2)), ("b", 5, 7, ("second", 2)), ("c", 5, 6, ("late", 2)))
    assert store.write(again).applied == 1
    assert keeping.living() == {"a": (5, ("good", 2)), "b": (5, ("first", 1)), "c": (5, ("stays", 1))}
    assert orders(store, "a", "b", "c") == [(5, 8), (5, 7), (5, 7)]


def test_a_higher_version_wins_whatever_its_release(keeping: Place) -> None:
    store = keeping.store
    store.write(released(("a", 5, 9, ("old", 1)), ("b", 6, 1, ("new", 1))))
    store.write(released(("a", 6, 2, ("new", 2)), ("b", 5, 9, ("old", 2))))
    assert keeping.living() == {"a": (6, ("new", 2)), "b": (6, ("new", 1))}
    assert orders(store, "a", "b") == [(6, 2), (6, 1)]


def test_rows_without_a_release_are_of_release_0(keeping: Place) -> None:
    store = keeping.store
    store.write(rows(("a", 5, ("before", 1)), ("b", 5, ("before", 1))))
    store.write(released(("a", 5, 1, (None, 2)), ("b", 5, 0, ("same", 2))))
    assert keeping.living() == {"a": (5, (None, 2)), "b": (5, ("before", 1))}
    assert store.write(rows(("a", 5, ("again", 3)))).applied == 0
    store.write(rows(("a", 6, ("without", None))))  # its release is 0 again, and no trace of the other one stays
    assert keeping.living()["a"] == (6, ("without", None))
    assert orders(store, "a", "b", "none") == [(6, 0), (5, 0), (None, 0)]


def test_marks_of_deleted_keys_obey_the_same_order(keeping: Place) -> None:
    store = keeping.store
    store.write(released(("a", 5, 7, ("bad", 1)), ("b", 5, 7, None), ("c", 5, 7, None), ("d", 5, 7, ("bad", 1))))
    store.write(released(("a", 5, 8, None), ("b", 5, 8, ("good", 2)), ("c", 5, 7, ("same", 2)), ("d", 5, 6, None)))
    assert keeping.living() == {"b": (5, ("good", 2)), "d": (5, ("bad", 1))}
    assert orders(store, "a", "b", "c", "d")[:3] == [(5, 8), (5, 8), (5, 7)]
    store.write(released(("a", 5, 7, ("late", 3)), ("c", 5, 8, None)))
    store.write(released(("c", 5, 7, ("late", 3)), ("b", 5, 9, None)))
    assert keeping.living() == {"d": (5, ("bad", 1))}
    assert orders(store, "c") == [(5, 8)]


def test_what_is_read_back_has_its_release(keeping: Place) -> None:
    store, batch = keeping.store, released(("a", 1, 3, ('x"\n', 7)), ("b", 2, 0, (None, None)), ("c", 3, 4, None))
    store.write(batch)
    fetched = store.fetch([b"a", b"b", b"c", b"d"])
    assert list(fetched.texts) == [*store.spelled(batch.values), None]
    assert list(fetched.releases) == [3, 0, 4, 0]
    found: dict[bytes, Any] = {}
    for part in store.scan():
        found |= dict(zip(part.keys, zip(part.versions, part.releases, part.texts, strict=True), strict=True))
    one, two, _ = store.spelled(batch.values)
    assert found == {b"a": (1, 3, one), b"b": (2, 0, two)}


def test_a_repair_replaces_only_the_release_that_it_has_seen(keeping: Place) -> None:
    store = keeping.store
    store.write(released(*((key, 9, 3, ("altered", 1)) for key in "abc"), ("d", 9, 3, None)))
    store.write(released(("b", 9, 4, ("newer", 2))))
    seen, of_release = pa.array([9, 9, 9, 9], pa.int64()), pa.array([3, 3, 3, 3], pa.int64())
    batch = released(("a", 5, 1, ("right", 1)), ("b", 5, 1, ("right", 2)), ("c", 9, 3, None), ("d", 9, 2, ("d", 1)))
    store.write(batch, seen, of_release)
    assert keeping.living() == {"a": (5, ("right", 1)), "b": (9, ("newer", 2)), "d": (9, ("d", 1))}
    store.write(rows(("a", 4, ("blind", 0))), pa.array([5], pa.int64()))  # it has seen release 0
    assert keeping.living()["a"] == (5, ("right", 1))


@pytest.mark.parametrize("number", range(rounds(3, 100)))
def test_any_order_of_arrival_ends_with_the_greatest_version_and_release(keeping: Place, number: int) -> None:
    source = random_source(f"releases/{keeping.kind}/{number}")
    stores = [keeping.store, keeping.another()]
    records: dict[tuple[str, int, int], Row] = {}
    for _ in range(300):
        row = None if source.random() < 0.3 else (source.choice([None, "x", "y"]), source.choice([None, 1, 2]))
        # A record is the same whenever it comes again.
        records.setdefault((f"k{source.randint(0, 12)}", source.randint(1, 4), source.choice([0, 0, 1, 2, 9])), row)
    arriving = [*records, *source.sample([*records], len(records) // 2)]
    source.shuffle(arriving)
    cuts = sorted({0, len(arriving), *(source.randrange(len(arriving)) for _ in range(20))})
    for start, end in pairwise(cuts):
        batch = {each[0]: each for each in arriving[start:end]}  # no key twice in one write
        source.choice(stores).write(_batch(batch.values(), records))
        rest = [each for each in arriving[start:end] if batch[each[0]] != each]
        for each in rest:
            source.choice(stores).write(_batch([each], records))
    greatest = {key: max(each for each in records if each[0] == key) for key, _, _ in records}
    expected = {key: (each[1], row) for key, each in greatest.items() if (row := records[each]) is not None}
    assert keeping.living() == expected
    assert orders(keeping.store, *greatest) == [each[1:] for each in greatest.values()]


def _batch(places: Any, records: dict[tuple[str, int, int], Row]) -> VersionedRows:
    made = [(*place, records[place]) for place in places]
    # Batches without any release are sent in another form.
    if not any(release for _, _, release, _ in made):
        return rows(*((key, version, row) for key, version, _, row in made))
    return released(*made)


@pytest.mark.parametrize("kind", UNRELEASED)
def test_a_table_without_the_column_works_as_before(servers: Addresses, kind: str) -> None:
    with new_place(kind, servers) as place:
        place.store.write(released(("a", 5, 7, ("first", 1)), ("b", 5, 7, None)))
        place.store.write(released(("a", 5, 8, ("second", 2)), ("b", 5, 8, ("b", 2))))
        assert place.living() == {"a": (5, ("first", 1))}
        assert orders(place.store, "a", "b") == [(5, 0), (5, 0)]


def test_a_missing_column_is_told_with_the_statement_that_adds_it(servers: Addresses) -> None:
    dsn = servers.postgres_dsn or ""
    location = PostgresLocation('"Without it"', ["id"], {"plan": "plan"}, release_column="of release")
    with psycopg.connect(dsn, autocommit=True) as connection, closing(PostgresStore(dsn, location)) as store:
        create: Any = 'CREATE TABLE "Without it" (id text PRIMARY KEY, plan text, version bigint, deleted boolean)'
        connection.execute(create)
        with pytest.raises(ConfigError) as caught:
            store.check()
        statement: Any = 'ALTER TABLE "Without it" ADD COLUMN "of release" bigint'
        assert statement in (caught.value.next_step or "")
        connection.execute(statement)
        assert store.check() == []
        connection.execute('ALTER TABLE "Without it" ALTER COLUMN "of release" TYPE int')
        with pytest.raises(ConfigError, match="of release is integer and has to be bigint"):
            store.check()


def test_the_marks_of_an_earlier_release_of_the_service_get_their_column(servers: Addresses) -> None:
    dsn = servers.postgres_dsn or ""
    own = replace(servers, postgres_dsn=f"{dsn}{'&' if '?' in dsn else '?'}options=-csearch_path%3Dearlier")
    with psycopg.connect(own.postgres_dsn or "", autocommit=True) as connection:
        connection.execute("CREATE SCHEMA earlier")
        with new_place("postgres_hard", own) as before:
            before.store.write(rows(("a", 5, None)))
            connection.execute("ALTER TABLE enrich_sync_markers DROP COLUMN release")
            before.another().write(rows(("a", 5, ("late", 1)), ("b", 5, None)))  # needs no such column
            assert before.living() == {}
        with new_place("postgres_hard_released", own) as place:
            place.store.write(released(("a", 5, 1, None), ("b", 5, 1, None)))
            place.store.write(released(("a", 5, 2, ("good", 1)), ("b", 5, 1, ("late", 1))))
            assert place.living() == {"a": (5, ("good", 1))}
