"""What a write that fails may cost: never rows that were shown, never the store, never another table."""

import threading
from contextlib import ExitStack, closing, suppress

import pyarrow as pa
import pytest

from stores.errors import Fatal, Retryable
from stores.protocol import TableUpdate
from stores.rocks import RocksReader, RocksStore
from stores.rocks.database import Database
from stores.rocks.directory import Directory, Watermark
from stores.rocks.layout import table_ranges
from stores.table import Status, row_versions
from tests.contract.stores.store_under_test import find, table, version
from tests.support.clock import ManualClock
from tests.support.descriptors import no_more_files
from tests.support.stores.directories import fast_directory

A, B = {"plan": "a"}, {"plan": "b"}
SPECS = {"users": table(), "events": table()}


@pytest.fixture
def held():
    with fast_directory() as directory, ExitStack() as held:
        yield directory / "store", held


@pytest.fixture
def writer(held):
    path, stack = held
    store = RocksStore(path, SPECS, ManualClock())
    stack.callback(store.close)
    return store


def update(offset, row):
    return TableUpdate(row_versions([version("k", offset, row)]), {0: offset + 1})


def plan_of(path, name):
    with closing(RocksReader(path, SPECS)) as reader:
        reader.verify()
        (answer,) = find(reader.snapshot().table(name), pa.array(["k"]))
    return answer.status if answer.values is None else answer.values["plan"]


class BrokenMirror:
    def __init__(self, error):
        self._error = error

    def follow(self, *_):
        raise self._error


def fails_with(error):
    def fail(*_, **__):
        raise error

    return fail


def break_compaction(monkeypatch, writer, error):
    monkeypatch.setattr(Database, "compact", fails_with(error))


def break_watermark(monkeypatch, writer, error):
    monkeypatch.setattr(Watermark, "raise_to", fails_with(error))


def break_mirror(monkeypatch, writer, error):
    writer.mirror(BrokenMirror(error))


@pytest.mark.parametrize("break_it", [break_compaction, break_watermark, break_mirror])
@pytest.mark.parametrize("error", [Fatal("the driver said so"), RuntimeError("Already borrowed")], ids=repr)
def test_what_fails_once_a_load_is_on_disk_takes_none_of_its_rows(held, writer, monkeypatch, break_it, error):
    path, _ = held
    writer.publish({"users": update(0, A), "events": update(0, A)})
    load = writer.bulk("users")
    load.add(row_versions([version("k", 5, B)]))
    with monkeypatch.context() as broken:
        break_it(broken, writer, error)
        with suppress(Fatal, Retryable, RuntimeError):
            load.finish({0: 6})
    writer.mirror(Ignores())
    writer.publish({"events": update(1, B)})
    assert plan_of(path, "users") == "b"
    assert dict(writer.tables["users"].positions) == {0: 6}
    assert plan_of(path, "events") == "b"


class Ignores:
    def follow(self, *_):
        pass


def test_a_load_that_was_shown_is_done_although_its_space_cannot_be_given_back(writer, monkeypatch):
    writer.publish({"users": update(0, A)})
    break_compaction(monkeypatch, writer, Fatal("the driver said so"))
    load = writer.bulk("users")
    load.add(row_versions([version("k", 5, B)]))
    assert load.finish({0: 6}).seq == writer.seq


def test_a_write_fails_beside_a_compaction_and_the_store_goes_on(held, writer, monkeypatch):
    path, _ = held
    everything = table_ranges(0)[0][0], b"\xff"
    flush, done = Database.flush, threading.Event()
    fails = iter([False, True] * 1_000)

    def compact():
        while not done.is_set():
            writer._database.compact(*everything)

    def flush_or_fail(self):
        if next(fails):
            raise Retryable("the disk is full")
        flush(self)

    monkeypatch.setattr(Database, "flush", flush_or_fail)
    thread = threading.Thread(target=compact)
    thread.start()
    try:
        for offset in range(40):
            for _ in range(2):
                with suppress(Retryable):
                    writer.publish({"users": update(offset, {"plan": str(offset)})})
    finally:
        done.set()
        thread.join()
    assert plan_of(path, "users") == "39"


def test_a_store_that_cannot_be_opened_again_uses_no_memory_and_says_so(writer, monkeypatch):
    with monkeypatch.context() as full:
        full.setattr(Database, "flush", fails_with(Retryable("the disk is full")))
        full.setattr(Database, "primary", fails_with(Retryable("the disk is full")))
        for _ in range(2):
            with pytest.raises(Retryable):
                writer.publish({"users": update(0, A)})
        assert writer.memory() == {}
    writer.publish({"users": update(0, A)})
    assert writer.memory()["block_cache"] >= 0


def test_loads_that_fail_on_a_full_disk_before_they_have_a_row_keep_no_number(writer, monkeypatch):
    full = fails_with(Retryable("the disk is full"))
    with monkeypatch.context() as broken:
        broken.setattr(Database, "flush", full)
        for _ in range(3):
            writer.bulk("users").abandon()
        broken.setattr(Directory, "new_work", full)
        for _ in range(3):
            with pytest.raises(Retryable):
                writer.bulk("users")
    assert not writer._loading, "there are 65,535 of them"


def test_a_store_is_closed_at_once_although_it_compacts(held, writer):
    path, _ = held
    begun, ended = threading.Event(), threading.Event()

    def compact():
        database = writer._database
        while database._is_open:
            begun.set()
            database.compact(b"", b"\xff")
        ended.set()

    thread = threading.Thread(target=compact)
    thread.start()
    begun.wait(60)
    writer.close()
    thread.join(60)
    assert ended.is_set()
    with closing(RocksStore(path, SPECS, ManualClock())) as again:
        again.publish({"users": update(0, A)})
    assert plan_of(path, "users") == "a"
    assert plan_of(path, "events") is Status.MISS


def test_a_load_is_shown_and_done_while_the_space_of_the_old_rows_is_given_back(held, writer, monkeypatch):
    path, _ = held
    goes_on = threading.Event()
    monkeypatch.setattr(Database, "compact", lambda *_: goes_on.wait(60))
    writer.publish({"users": update(0, A)})
    load = writer.bulk("users")
    load.add(row_versions([version("k", 5, B)]))
    finishing = threading.Thread(target=load.finish, args=({0: 6},))
    finishing.start()
    try:
        finishing.join(30)
        assert not finishing.is_alive()
        assert plan_of(path, "users") == "b"
    finally:
        goes_on.set()
        finishing.join()


def test_a_store_that_may_open_no_more_files_goes_on_once_it_may(held, writer):
    path, _ = held
    for offset in range(2):  # the second one imports what it needs
        writer.publish({"users": update(offset, A), "events": update(offset, A)})
    with no_more_files():
        with pytest.raises(Retryable, match="no room for another open or mapped file") as refused:
            writer.publish({"users": update(2, B), "events": update(2, B)})
        with pytest.raises(Retryable, match="no room"):
            RocksReader(path, SPECS)
    assert "ulimit -n" in str(refused.value)
    assert plan_of(path, "users") == "a"
    writer.publish({"users": update(2, B), "events": update(2, B)})
    assert plan_of(path, "users") == "b"


def test_what_could_not_be_written_is_neither_said_to_be_there_nor_passed_on(writer, monkeypatch):
    """Readers would be told of rows that they do not find, and segments would have rows that the store has not."""
    passed_on = []

    class Mirror:
        def follow(self, seq, _):
            passed_on.append(seq)

    writer.mirror(Mirror())
    writer.publish({"users": update(0, A)})
    before = writer.seq, dict(writer.tables)
    with monkeypatch.context() as full:
        full.setattr(Database, "flush", fails_with(Retryable("the disk is full")))
        with pytest.raises(Retryable):
            writer.publish({"users": update(1, B)})
    assert (writer.seq, dict(writer.tables)) == before
    assert passed_on == [writer.seq]


def test_what_was_decoded_before_a_load_ended_brings_no_row_back_that_the_load_has_not(held, writer):
    """It was deleted meanwhile, and its topic has forgotten that."""
    path, _ = held
    prepared = writer.prepare("users", TableUpdate(row_versions([version("k", 1, A)]), {0: 6}))
    load = writer.bulk("users")
    load.add(row_versions([version("another", 5, B)]))
    load.finish({0: 6})
    writer.publish({"users": prepared})
    assert plan_of(path, "users") is Status.MISS
