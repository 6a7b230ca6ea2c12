"""Segments beside a store: they follow each publication, and come back after whatever happened to them."""

import shutil
from contextlib import suppress

import pyarrow as pa
import pytest

from stores.errors import Retryable
from stores.protocol import Decoded, KeyKind, TableSpec
from stores.rocks.directory import Watermark
from stores.segments.manifest import parse_manifest, read_raw_manifest
from stores.table import Status
from tests.contract.stores.store_under_test import COLUMNS, find, table, version
from tests.support.clock import ManualClock
from tests.support.seed import random_source, rounds
from tests.support.stores.directories import fast_directory
from tests.support.stores.mirrored_store import MirroredStore
from tests.support.waiting import wait_until

SPECS = {"users": table(history_ms=60_000), "events": table(), "networks": table(key=KeyKind.CIDR)}
KEYS = pa.array([f"k{number}" for number in range(60)])
A, B = {"plan": "a"}, {"plan": "b"}


@pytest.fixture
def directory():
    with fast_directory() as directory:
        yield directory


@pytest.fixture
def store(directory):
    mirrored = MirroredStore(directory, SPECS, ManualClock()).start()
    yield mirrored
    mirrored.stop()


def files(store):
    return {path.name for path in store.segments.glob("*.segment")}


def test_a_publication_stands_in_segments_when_it_returns(store):
    store.until_mapped()
    for offset in range(20):
        store.publish("users", version("k1", offset, {"plan": str(offset)}))
        snapshot = store.newest()
        assert snapshot is not None
        assert find(snapshot.table("users"), pa.array(["k1"]))[0].values == {"plan": str(offset)}


def test_segments_answer_as_the_store_does_over_loads_restarts_and_expiry(store):
    random = random_source("segments beside a store")
    clock = store._clock
    offset = 0
    for _ in range(rounds(12, 100)):
        for _ in range(random.randrange(1, 5)):
            rows = [
                version(
                    f"k{random.randrange(50)}",
                    offset + number,
                    random.choice([None, {"plan": f"p{offset}", "limits": {"tags": ["x", None]}}]),
                    timestamp=clock.now_ms() + random.randrange(-500, 500),
                )
                for number in range(random.randrange(1, 40))
            ]
            offset += len(rows)
            name = random.choice(["users", "events"])
            if random.random() < 0.15:
                store.load(name, *rows)
            else:
                store.publish(name, *rows)
            clock.advance(random.randrange(20_000))
        if random.random() < 0.3:
            store.store.remove_expired()
        if random.random() < 0.3:
            store.stop()
            store.start()
        for name in ("users", "events"):
            store.assert_same(name, KEYS)
            reached = store.store.tables[name].positions
            store.assert_same(name, KEYS, pin={p: max(0, end - random.randrange(30)) for p, end in reached.items()})


def test_only_the_table_that_is_being_built_keeps_what_comes(store):
    store.until_mapped()
    store.hold.clear()
    for name in ("users", "events"):
        store.load(name, version("k1", 0, A))
    wait_until(lambda: store.built, what="a build")
    before = files(store)
    for offset in range(1, 20):
        for name in ("users", "events"):
            store.publish(name, version("k1", offset, {"plan": str(offset)}))
    assert {name.partition("-")[0] for name in files(store) - before} <= {store.built[-1]}
    store.hold.set()
    for name in ("users", "events"):
        store.assert_same(name, KEYS)


def test_networks_come_masked_and_bad_ones_stay_out(store):
    store.load("networks", version("10.1.2.3/8", 0, A), version("no network", 1, A), version("2001:db8::/32", 2, B))
    store.publish("networks", version("10.1.0.0/16", 3, B), version("::ffff:10.9.0.0/112", 4, A), version("x", 5, A))
    probes = pa.array(["10.1.2.3", "10.200.0.1", "10.9.1.1", "2001:db8::1", "11.0.0.1", "not an address", None])
    store.assert_same("networks", probes)
    found = find(store.until_mapped().table("networks"), probes)
    assert [answer.values and answer.values["plan"] for answer in found[:4]] == ["b", "a", "a", "b"]
    assert store.store.tables["networks"].quarantine.records == 2


def test_a_restart_reuses_the_segments_that_fit(store):
    store.load("users", *(version(f"k{number}", number, A) for number in range(50)))
    store.until_mapped()
    store.publish("users", version("k1", 50, B))
    before, store.built = files(store), []
    store.stop()
    store.start()
    # Published before the segments are open again: they take it up from where they were.
    store.publish("users", version("k2", 51, B))
    store.assert_same("users", KEYS)
    assert store.built == []
    assert before < files(store)


def test_what_was_published_without_segments_is_built_anew(store):
    store.load("users", *(version(f"k{number}", number, A) for number in range(50)))
    store.load("events", version("k1", 0, A))
    store.until_mapped()
    store.stop()
    store.start(mirrored=False)  # as if the agent was killed between the two publications
    store.publish("users", version("k1", 50, B))
    store.stop()
    store.built = []
    store.start()
    store.assert_same("users", KEYS)
    assert store.built == ["users"]


def test_segments_of_rows_that_were_loaded_anew_are_not_taken_over_although_the_positions_are_equal(store):
    store.load("users", *(version(f"k{number}", number, A) for number in range(3)))
    store.until_mapped()
    store.stop()
    # A topic recreated with as many records, and an agent that was killed before its segments were open.
    store.start(mirrored=False)
    store.load("users", *(version(f"k{number}", number, B) for number in range(3)))
    store.stop()
    store.built = []
    store.start()
    store.assert_same("users", KEYS)
    assert store.built == ["users"]


@pytest.mark.parametrize("damage", ["deleted", "replaced", "all of them"])
def test_a_segment_that_is_lost_under_a_running_agent_is_built_anew(store, damage):
    store.load("users", *(version(f"k{number}", number, A) for number in range(50)))
    store.until_mapped()
    store.built = []
    manifest = parse_manifest(store.segments, read_raw_manifest(store.segments))
    lost = store.segments / manifest.tables["users"].segments[0].name
    if damage == "deleted":
        lost.unlink()
    elif damage == "replaced":
        # Not cut in place: that kills whoever reads the mapping just then, here the keeper's thread.
        shorter = lost.with_suffix(".shorter")
        shorter.write_bytes(lost.read_bytes()[:100])
        shorter.replace(lost)
    else:
        shutil.rmtree(store.segments)
    wait_until(lambda: store.built, what="a build")
    store.publish("users", version("k1", 50, B))
    store.assert_same("users", KEYS)


def test_auto_takes_segments_while_there_is_room_and_says_why_not(directory):
    rows = [version(f"k{number}", number, {"plan": "p" * 100}) for number in range(200)]
    store = MirroredStore(directory, SPECS, ManualClock(), auto=True, room=30_000).start()
    store.load("events", *rows[:10])
    store.until_mapped("events")
    store.load("users", *rows)
    why = wait_until(lambda: reason(store, "users", "memory.budget"), what="the refusal")
    assert "leaves 0 MiB" in why
    assert store.until_mapped("events").has("events")
    store.publish("users", version("k1", 200, A))
    store.load("users", *rows[:10])
    store.assert_same("users", KEYS)
    store.publish(
        "users",
        *(one._replace(offset=1_000 + one.offset) for one in rows),
        *(version(f"more{number}", 2_000 + number, {"plan": "p" * 100}) for number in range(300)),
    )
    wait_until(lambda: reason(store, "users", "memory.budget"), what="the refusal of what has grown")
    store.stop()


class _Forgetful:
    """A decoder of which a later release refuses some rows."""

    def __init__(self) -> None:
        self.refuses = False

    def decode(self, values: pa.BinaryArray) -> Decoded:
        decoded = SPECS["users"].decoder.decode(values)
        bad = {i: "no more" for i, value in enumerate(values.to_pylist()) if self.refuses and value and b"bad" in value}
        return Decoded(decoded.rows, {**decoded.bad, **bad})


def test_a_table_whose_rows_cannot_be_decoded_any_more_has_no_segments_until_they_are_others(directory):
    decoder = _Forgetful()
    store = MirroredStore(directory, {"users": TableSpec(COLUMNS, decoder)}, ManualClock())
    store.start(mirrored=False)
    store.load("users", version("k1", 0, A), version("k2", 1, {"plan": "bad"}))
    store.stop()
    decoder.refuses = True
    store.start()
    why = wait_until(lambda: reason(store, "users", "cannot be decoded any more"), what="the refusal")
    assert "partition 0, offset 1" in why
    store.load("users", version("k1", 2, A))
    assert [answer.status for answer in find(store.until_mapped().table("users"), KEYS[:2])] == [
        Status.MISS,
        Status.HIT,
    ]
    store.stop()


def reason(store, name, part):
    """Why the table has no segments, once the reason has this part."""
    with suppress(Retryable):
        absent = parse_manifest(store.segments, read_raw_manifest(store.segments)).tables[name].absent
        return absent if absent is not None and part in absent else None


def test_what_is_in_the_store_although_its_publication_failed_is_in_the_segments_too(store, monkeypatch):
    """A write may fail once it is on the disk: nobody has passed its rows on."""

    def fails(*_):
        raise Retryable("the disk is full")

    store.load("users", version("k1", 0, A), version("k2", 1, A))
    store.until_mapped()
    with monkeypatch.context() as full:
        full.setattr(Watermark, "raise_to", fails)
        with pytest.raises(Retryable):
            store.publish("users", version("k1", 2, B))
    store.publish("users", version("k2", 3, B))
    store.assert_same("users", KEYS)
