"""Segments of one table that cannot be written, merged or built cost this table its speed, and no other anything."""

import pyarrow as pa
import pytest

from stores.segments.write import build
from tests.contract.stores.store_under_test import table, version
from tests.support.clock import ManualClock
from tests.support.stores.directories import fast_directory
from tests.support.stores.mirrored_store import MirroredStore
from tests.support.waiting import wait_until

SPECS = {"broken": table(), "users": table()}
KEYS = pa.array([f"k{number}" for number in range(60)])


@pytest.fixture
def store():
    with fast_directory() as directory:
        mirrored = MirroredStore(directory, SPECS, ManualClock()).start()
        yield mirrored
        mirrored.stop()


class Errors(list[Exception]):
    least_sources = 0
    """Two: of merges only."""


@pytest.fixture
def fault(monkeypatch):
    """What the segments of `broken` meet while there is something in it."""
    errors = Errors()
    build_segment = build.build_segment

    def build_or_fail(path, columns, sources, *rest):
        if errors and len(sources) >= errors.least_sources and path.name.startswith("broken-"):
            raise errors[0]
        return build_segment(path, columns, sources, *rest)

    monkeypatch.setattr("stores.segments.write.writer.build_segment", build_or_fail)
    monkeypatch.setattr("stores.segments.write.base.build_segment", build_or_fail)
    return errors


ERRORS = [RuntimeError("nobody has thought of this"), pa.ArrowInvalid("no such value")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_table_whose_segments_fail_is_read_from_the_store_says_why_and_gets_them_back(store, fault, error):
    store.load("broken", version("k1", 0, {"plan": "a"}))
    store.load("users", version("k1", 0, {"plan": "a"}))
    store.until_mapped()
    fault.append(error)
    for offset in range(1, 40):
        for name in SPECS:
            store.publish(name, version(f"k{offset}", offset, {"plan": str(offset)}))
        snapshot = store.newest()
        assert snapshot is not None, "segments are as new as the store, whatever one table meets"
        assert snapshot.has("users")
    store.assert_same("users", KEYS)
    wait_until(lambda: str(error) in store.keeper.remarks().get("broken", ""), what="why it has none")
    assert "tried again" in store.keeper.remarks()["broken"]
    assert "users" not in store.keeper.remarks()
    fault.clear()
    store.assert_same("broken", KEYS)
    wait_until(lambda: not store.keeper.remarks(), what="nothing to remark")


def test_a_table_that_cannot_be_merged_holds_up_no_merge_of_the_others(store, fault):
    for name in SPECS:
        store.load(name, version("k1", 0, {"plan": "a"}))
    store.until_mapped()
    fault.append(RuntimeError("a merge met what nobody has thought of"))
    fault.least_sources = 2
    opened = store.keeper._opened
    for offset in range(1, 60):
        for name in SPECS:
            store.publish(name, version(f"k{offset}", offset, {"plan": str(offset)}))
    wait_until(lambda: store.keeper.stats()["users"].segments < 10, what="the merges of the other table")
    wait_until(lambda: "a merge met" in store.keeper.remarks().get("broken", ""), what="the reason")
    assert store.keeper._opened is opened
    fault.clear()
    wait_until(lambda: store.keeper.stats()["broken"].segments < 10, what="its own merges")
    for name in SPECS:
        store.assert_same(name, KEYS)
