"""A reader of segments and RocksDB: one seq over all tables, never an older one, whatever segments are late or gone."""

import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest

from enrich.base.processes import identify, pid_namespace
from enrich.config import load_text
from enrich.host.ipc.header import Header, HeaderWriter, TableState
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import AgentReader
from enrich.host.tables import all_tables
from stores.clock import SystemClock
from stores.rocks.read.view import RocksTable
from stores.segments.read.view import SegmentsTable
from tests.contract.stores.store_under_test import version
from tests.support.stores.mirrored_store import MirroredStore

PIPELINE = """
name: test
kafka: {{bootstrap_servers: "nobody:9092"}}
state_dir: {state_dir}
tables:
  users: {{topic: users, format: json, columns: "plan string"}}
  events: {{topic: events, format: json, columns: "plan string", access: {access}}}
"""


class Beside:
    """A store with segments, in the place of an agent's, and this process as the agent that readers see."""

    def __init__(self, state_dir: Path, access: str) -> None:
        self.pipeline = load_text(PIPELINE.format(state_dir=state_dir, access=access))
        paths = paths_of(self.pipeline)
        paths.folder.mkdir(parents=True)
        specs = {name: table.spec for name, table in all_tables(self.pipeline).items()}
        self.store = MirroredStore(paths.folder, specs, SystemClock()).start()
        self._header = HeaderWriter(paths.header)
        self.offset = 0

    def publish(self, plan: str) -> None:
        """Both tables get the same row, and the header tells of it."""
        for table in ("users", "events"):
            self.store.publish(table, version("k", self.offset, {"plan": plan}))
        self.offset += 1
        self.speak()

    def speak(self) -> None:
        myself = identify(os.getpid())
        assert myself is not None
        tables = dict.fromkeys(("users", "events"), TableState(ready=True))
        now = SystemClock().now_ms()
        self._header.write(Header(*self.store.store.seq, now, myself.pid, myself.started, pid_namespace(), tables))

    def look(self, reader: AgentReader) -> tuple[set[str], set[type], int]:
        """The plans that both tables tell, by which ways, at which seq."""
        self.speak()
        snapshot = reader.snapshot()
        views = [snapshot.table(name) for name in ("users", "events")]
        plans = {view.lookup(pa.array(["k"]), ["plan"]).values[0].as_py()["plan"] for view in views}
        return plans, {type(view.view) for view in views}, snapshot.seq.counter

    def stop_segments(self) -> None:
        """As if they could not be written any more, or an agent was killed between the two publications."""
        self.store.keeper.close()
        self.store.store.mirror(_Deaf())

    def close(self) -> None:
        self.store.stop()
        self._header.close()


class _Deaf:
    def follow(self, seq, changes):
        pass


@pytest.fixture
def both_mapped(tmp_path):
    beside = Beside(tmp_path / "state", "mapped")
    yield beside
    beside.close()


@pytest.fixture
def one_on_disk(tmp_path):
    beside = Beside(tmp_path / "state", "rocks")
    yield beside
    beside.close()


def test_segments_that_are_late_are_not_believed_and_no_reader_goes_back(both_mapped):
    both_mapped.publish("a")
    both_mapped.store.until_mapped()
    reader = AgentReader(both_mapped.pipeline)
    plans, ways, first = both_mapped.look(reader)
    assert (plans, ways) == ({"a"}, {SegmentsTable})
    both_mapped.stop_segments()
    both_mapped.publish("b")
    plans, ways, second = both_mapped.look(reader)
    assert (plans, ways) == ({"b"}, {RocksTable})
    assert second > first
    both_mapped.store.stop()
    both_mapped.store.start()
    both_mapped.publish("c")
    both_mapped.store.until_mapped()
    plans, ways, third = both_mapped.look(reader)
    assert (plans, ways) == ({"c"}, {SegmentsTable})
    assert third > second
    reader.close()


def test_a_reader_that_saw_more_than_the_header_said_does_not_go_back_to_older_segments(both_mapped):
    both_mapped.publish("a")
    both_mapped.store.until_mapped()
    reader = AgentReader(both_mapped.pipeline)
    both_mapped.stop_segments()
    both_mapped.publish("b")
    _, _, seen = both_mapped.look(reader)
    seq = both_mapped.store.store.seq
    reader.close()  # lets go of what is open; what it has seen stays
    older = Header(seq.store, seq.generation, 0, SystemClock().now_ms(), 0, 0, 0, {})
    segments = reader._segments.newest()
    assert segments is not None
    assert segments.seq.counter < seen
    assert not reader._is_enough(segments, seq._replace(counter=older.counter))
    reader.close()


def test_tables_of_both_ways_are_at_one_seq_also_where_segments_are_late(one_on_disk):
    reader = AgentReader(one_on_disk.pipeline)
    one_on_disk.publish("0")
    one_on_disk.store.until_mapped()
    for number in range(1, 20):
        one_on_disk.publish(str(number))
        assert one_on_disk.look(reader)[:2] == ({str(number)}, {SegmentsTable, RocksTable})
    one_on_disk.stop_segments()
    one_on_disk.publish("late")
    assert one_on_disk.look(reader)[:2] == ({"late"}, {RocksTable})
    reader.close()


def test_segments_that_do_not_move_are_waited_for_only_once(both_mapped, monkeypatch):
    both_mapped.publish("a")
    both_mapped.store.until_mapped()
    reader = AgentReader(both_mapped.pipeline)
    both_mapped.stop_segments()
    both_mapped.publish("b")
    both_mapped.look(reader)
    looked = Mock(wraps=reader._segments.newest)
    monkeypatch.setattr(reader._segments, "newest", looked)
    both_mapped.publish("c")
    assert both_mapped.look(reader)[:2] == ({"c"}, {RocksTable})
    assert looked.call_count == 1
    reader.close()


def test_without_segments_a_reader_goes_on_with_the_store(both_mapped):
    both_mapped.publish("a")
    both_mapped.store.until_mapped()
    reader = AgentReader(both_mapped.pipeline)
    assert both_mapped.look(reader)[1] == {SegmentsTable}
    both_mapped.stop_segments()
    shutil.rmtree(both_mapped.store.segments)
    assert both_mapped.look(reader)[:2] == ({"a"}, {RocksTable})
    reader.close()
