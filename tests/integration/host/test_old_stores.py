"""A changed table gets a store of its own. The one before it goes once nobody has used it for long."""

import os
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from enrich.codecs import JsonDecoder
from enrich.host.ipc.lock import StoreLock
from enrich.host.process.old_stores import UNUSED_S, OldStores, remove_unused
from stores.protocol import TableSpec, TableUpdate
from stores.rocks import RocksStore
from stores.table import RowVersion, row_versions
from tests.support.clock import ManualClock
from tests.support.waiting import wait_until

COLUMNS = pa.schema([("plan", pa.string())])


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """The folder of a pipeline's stores, in which the agent that looks has one, too."""
    make_store(tmp_path, "own")
    return tmp_path


def named(name: str) -> str:
    return f"3-{name.encode().hex().rjust(16, '0')}"


def make_store(pipeline: Path, name: str, *values: bytes, days: float = 0.0) -> Path:
    """`days`: for so long nobody has used it."""
    folder = pipeline / named(name)
    folder.mkdir()
    spec = TableSpec(COLUMNS, JsonDecoder(COLUMNS))
    with closing(RocksStore(folder / "rows", {"users": spec}, ManualClock())) as store:
        rows = [RowVersion(b"%d" % at, 0, at, 1_000, value) for at, value in enumerate(values)]
        store.publish({"users": TableUpdate(row_versions(rows), {0: len(rows)})})
    for file in ("lock", "header", "agent.log"):
        (folder / file).touch()
    (folder / "leases").mkdir()
    leave_alone(folder, days)
    return folder


def leave_alone(folder: Path, days: float) -> None:
    then = time.time() - days * 86_400
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (then, then))


def left(pipeline: Path) -> set[str]:
    return {path.name for path in pipeline.iterdir()}


def test_a_store_that_nobody_has_used_for_long_is_removed_and_no_other_one_is(pipeline: Path) -> None:
    make_store(pipeline, "old", b'{"plan": "pro"}', days=15)
    make_store(pipeline, "young", days=13)
    leave_alone(pipeline / named("own"), days=100)
    for other in ("sync-sources", "3-abc", ".verify-1"):
        (pipeline / other).mkdir()
        leave_alone(pipeline / other, days=100)
    (pipeline / "users.dead-letters.jsonl").touch()
    before = left(pipeline)
    assert remove_unused(pipeline / named("own")) == [pipeline / named("old")]
    assert left(pipeline) == before - {named("old")}
    assert remove_unused(pipeline / named("own")) == []


def test_what_was_used_counts_and_not_when_it_was_made(pipeline: Path) -> None:
    folder = make_store(pipeline, "used", days=100)
    os.utime(folder / "agent.log")  # its last words
    assert remove_unused(pipeline / named("own")) == []


def test_what_a_killed_agent_has_written_counts(pipeline: Path) -> None:
    folder = make_store(pipeline, "killed", days=100)
    os.utime(folder / "rows" / "watermark")
    assert remove_unused(pipeline / named("own")) == []


def test_a_store_that_has_an_agent_stays(pipeline: Path) -> None:
    folder = make_store(pipeline, "alive", days=100)
    lock = StoreLock.try_take(folder / "lock")
    assert lock is not None
    leave_alone(folder, days=100)
    assert remove_unused(pipeline / named("own")) == []
    lock.release()
    leave_alone(folder, days=100)
    assert remove_unused(pipeline / named("own")) == [folder]


def test_records_in_quarantine_are_nowhere_else_perhaps_and_stay(pipeline: Path) -> None:
    make_store(pipeline, "doubt", b'{"plan": "pro"}', b"no json", days=100)
    assert remove_unused(pipeline / named("own")) == []
    assert named("doubt") in left(pipeline)


def test_one_that_cannot_be_read_any_more_goes(pipeline: Path) -> None:
    folder = make_store(pipeline, "broken", days=100)
    (folder / "rows" / "watermark").write_bytes(b"")
    leave_alone(folder, days=100)
    assert remove_unused(pipeline / named("own")) == [folder]


def test_what_an_agent_began_to_remove_the_next_one_removes(pipeline: Path) -> None:
    (pipeline / ".gone-1").mkdir()
    (pipeline / ".gone-1" / "file").touch()
    assert remove_unused(pipeline / named("own")) == []
    assert left(pipeline) == {named("own")}


def test_an_agent_looks_a_while_after_its_start_and_then_each_hour(pipeline: Path) -> None:
    now_s = 0.0
    stores = OldStores(pipeline / named("own"), lambda: now_s)
    folder = make_store(pipeline, "old", days=UNUSED_S / 86_400 + 1)
    stores.look()
    assert folder.exists()
    now_s = 61.0
    stores.look()
    wait_until(lambda: left(pipeline) == {named("own")}, what="the first look")
    folder = make_store(pipeline, "old", days=100)
    stores.look()
    now_s = 61.0 + 3_601.0
    stores.look()
    wait_until(lambda: left(pipeline) == {named("own")}, what="the next one")
