"""What every external store promises: the newest version wins, whatever comes twice, late or in another order."""

from contextlib import closing
from uuid import uuid4

import pyarrow as pa
import pytest
import redis

from enrich.dev import Addresses
from stores.external import RedisAddress, RedisLocation, RedisStore
from tests.contract.external.places import Place, rows
from tests.support.seed import random_source, rounds


def test_a_newer_version_replaces_an_older_one_and_never_the_other_way_round(place: Place) -> None:
    store = place.store
    assert store.write(rows(("a", 5, ("pro", 1)), ("b", 5, ("free", None)))).applied == 2
    assert store.write(rows(("a", 4, ("old", 0)), ("b", 6, (None, 3)))).applied == 1
    assert place.living() == {"a": (5, ("pro", 1)), "b": (6, (None, 3))}


def test_the_same_again_changes_nothing(place: Place) -> None:
    batch = rows(("a", 5, ("pro", 1)), ("b", 6, None))
    assert place.store.write(batch).applied == 2
    assert place.store.write(batch).applied == 0
    assert place.living() == {"a": (5, ("pro", 1))}


def test_a_deleted_key_stays_deleted_until_something_newer_comes(place: Place) -> None:
    store = place.store
    store.write(rows(("a", 5, ("pro", 1)), ("never", 7, None)))
    store.write(rows(("a", 8, None)))
    store.write(rows(("a", 7, ("late", 1)), ("never", 6, ("late", 2))))
    assert place.living() == {}
    store.write(rows(("a", 9, (None, 2)), ("never", 8, ("back", None))))
    assert place.living() == {"a": (9, (None, 2)), "never": (8, ("back", None))}


def test_a_column_that_becomes_null_does_not_keep_its_old_value(place: Place) -> None:
    place.store.write(rows(("a", 1, ("pro", 1))))
    place.store.write(rows(("a", 2, (None, None))))
    assert place.living() == {"a": (2, (None, None))}


def test_any_text_is_a_key_and_a_value(place: Place) -> None:
    texts = ['"', "\\", "{}", "a,b", "NULL", "'; --", "é😀", "a\nb\tc", " ", "*[x]?", "%s", "$1"]
    place.store.write(rows(*((f"k{text}", 1, (text, index)) for index, text in enumerate(texts))))
    assert place.living() == {f"k{text}": (1, (text, index)) for index, text in enumerate(texts)}


def test_what_is_read_back_is_what_the_rows_are_spelled_as(place: Place) -> None:
    batch = rows(("a", 1, ('x"\n', 7)), ("b", 2, (None, None)), ("c", 3, None))
    place.store.write(batch)
    keys = [b"a", b"b", b"c", b"d"]
    fetched = place.store.fetch(keys)
    assert list(fetched.texts) == [*place.store.spelled(batch.values), None]
    assert list(fetched.versions) == [1, 2, 3, None]
    scanned = {
        key: (version, texts)
        for part in place.store.scan()
        for key, version, texts in zip(part.keys, part.versions, part.texts, strict=True)
    }
    expected = zip(keys[:2], [1, 2], place.store.spelled(batch.values), strict=False)
    assert scanned == {key: (version, texts) for key, version, texts in expected}


def test_a_repair_replaces_exactly_what_it_has_seen(place: Place) -> None:
    store = place.store
    store.write(rows(("a", 9, ("altered", 1)), ("b", 9, ("altered", 2)), ("c", 9, ("extra", 3)), ("d", 9, None)))
    store.write(rows(("b", 10, ("newer", 2))))
    seen = pa.array([9, 9, 9, 9, None], pa.int64())
    batch = rows(("a", 5, ("right", 1)), ("b", 5, ("right", 2)), ("c", 9, None), ("d", 3, ("d", 1)), ("e", 1, ("e", 0)))
    store.write(batch, seen)
    assert place.living() == {
        "a": (5, ("right", 1)),
        "b": (10, ("newer", 2)),
        "d": (3, ("d", 1)),
        "e": (1, ("e", 0)),
    }


def test_notes_are_kept_and_only_replaced_by_who_knows_them(place: Place) -> None:
    name = f"enrich:test:{uuid4()}"
    assert place.store.load_note(name) is None
    assert place.store.save_note(name, "one", None)
    assert not place.another().save_note(name, "two", None)
    assert not place.store.save_note(name, "two", "other")
    assert place.store.save_note(name, "two", "one")
    assert place.another().load_note(name) == "two"


def test_an_incarnation_stays_while_the_server_does(place: Place) -> None:
    assert place.store.incarnation() == place.another().incarnation() != ""


@pytest.mark.parametrize("number", range(rounds(3, 100)))
def test_any_order_of_writes_ends_with_the_newest_of_each_key(place: Place, number: int) -> None:
    source = random_source(f"external/{place.kind}/{number}")
    stores = [place.store, place.another()]
    newest: dict[str, tuple[int, tuple[str | None, int | None] | None]] = {}
    for _ in range(25):
        batch = {}
        for _ in range(source.randint(1, 30)):
            row = None if source.random() < 0.3 else (source.choice([None, "x", "y"]), source.choice([None, 1, 2]))
            batch[f"k{source.randint(0, 20)}"] = (source.randint(1, 60), row)
        for key, (version, row) in batch.items():
            if key not in newest or version > newest[key][0]:
                newest[key] = (version, row)
        source.choice(stores).write(rows(*((key, version, row) for key, (version, row) in batch.items())))
    assert place.living() == {key: (version, row) for key, (version, row) in newest.items() if row is not None}


@pytest.mark.parametrize("as_json", [False, True], ids=["hash", "json"])
def test_a_row_does_not_get_the_time_to_live_of_what_stood_under_its_key(servers: Addresses, as_json: bool) -> None:
    name, url = f"theirs{as_json}", servers.redis_url or ""
    place = RedisLocation(f"{name}:{{key}}", ["plan", "rps"], as_json)
    with closing(redis.Redis.from_url(url)) as client, closing(RedisStore(RedisAddress(url), place)) as store:
        if as_json:
            client.set(f"{name}:a", '{"plan": "theirs"}', px=600_000)
        else:
            client.hset(f"{name}:a", mapping={"plan": "theirs", "theirs": "1"})
            client.pexpire(f"{name}:a", 600_000)
        store.write(rows(("a", 1, ("ours", 1))))
        assert client.pttl(f"{name}:a") == -1


@pytest.mark.parametrize("as_json", [False, True], ids=["hash", "json"])
def test_rows_stay_once_there_is_no_time_to_live_any_more(servers: Addresses, as_json: bool) -> None:
    name, url = f"ttl{as_json}", servers.redis_url or ""
    with closing(redis.Redis.from_url(url)) as client:

        def store(ttl_ms: int) -> RedisStore:
            place = RedisLocation(f"{name}:{{key}}", ["plan", "rps"], as_json, ttl_ms, marker_ms=60_000)
            made = RedisStore(RedisAddress(url), place)
            made.check()
            return made

        with closing(store(30_000)) as before:
            before.write(rows(("a", 1, ("x", 1)), ("b", 1, ("x", 1)), ("gone", 1, None)))
        client.set(f"{name}:theirs", "of another program", ex=100)
        with closing(store(0)) as after:
            assert client.pttl(f"{name}:a") == -1  # also of what nobody writes any more
            client.expire(f"{name}:b", 50)  # by an instance that still has the old configuration
            after.write(rows(("b", 2, ("y", 2))))
        assert client.pttl(f"{name}:b") == -1
        assert client.pttl(f"{name}:gone") > 0
        assert client.pttl(f"{name}:theirs") > 0
