"""A file becomes a topic; one that is cut short, empty or replaced while it is read harms nothing."""

import itertools
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from enrich.base.errors import Unreachable
from enrich.kafka.writing.transactions import DatedRecord, TransactionalProducer
from enrich.service.routes import RouteState
from sync_service.sources import writing
from tests.support.figures import unexplained_of
from tests.support.sync.sources import SourceWorld, has_read, is_held, repeats
from tests.support.waiting import wait_until


def put(source: SourceWorld, rows: dict[int, str], name: str = "rows.csv", *, cut: int = 0) -> Path:
    """Writes the file aside and renames it, as one should; a time in the past, so that it rests already."""
    path = source.directory / name
    aside = path.with_suffix(".aside")
    if path.suffix == ".parquet":
        table = pa.table({"id": pa.array(list(rows), pa.int64()), "plan": list(rows.values())})
        parquet.write_table(table, aside)
    elif path.suffix == ".json":
        aside.write_text("".join(f'{{"id": {key}, "plan": "{plan}"}}\n' for key, plan in rows.items()))
    else:
        aside.write_text("id,plan\n" + "".join(f"{key},{plan}\n" for key, plan in rows.items()))
    if cut:
        aside.write_bytes(aside.read_bytes()[:-cut])
    os.utime(aside, (1_000 + len(rows), 1_000))
    aside.rename(path)
    columns = {"columns": "id bigint, plan string"} if path.suffix != ".parquet" else {}
    source.origin = {"file": {"path": str(path), "key": ["id"], **columns}}
    return path


def expected(rows: dict[int, str]) -> dict[bytes, bytes]:
    return {str(key).encode(): f'{{"id":{key},"plan":"{plan}"}}'.encode() for key, plan in rows.items()}


@pytest.mark.parametrize("name", ["rows.csv", "rows.json", "rows.parquet"])
def test_the_topic_becomes_the_file_and_follows_it(source: SourceWorld, name: str) -> None:
    source.make_topic()
    rows = {number: f"plan {number}" for number in range(100)}
    put(source, rows, name)
    with source.running():
        wait_until(lambda: source.in_topic() == expected(rows))
        changed = {**{key: plan for key, plan in rows.items() if key >= 5}, 50: "new", 200: "more"}
        put(source, changed, name)
        wait_until(lambda: source.in_topic() == expected(changed))
    assert source.records() == 100 + 5 + 2
    assert repeats(source.versions()) == []


@pytest.mark.parametrize(("most", "large"), [(3_000_000, 2_000_000), (20_000, 15_000)])
def test_rows_may_be_as_large_as_their_topic_takes_them(source: SourceWorld, most: int, large: int) -> None:
    """What a client takes by default is no limit, neither of a row nor of many that are written together."""
    source.make_topic(max_message_bytes=str(most))
    rows = dict.fromkeys(range(5000), "p" * 100) | {7: "x" * large}
    put(source, rows, "rows.parquet")
    status = source.run_once()
    assert source.in_topic() == expected(rows), status.last_error
    assert status.gauges["rejected"] == 0
    assert unexplained_of("sync", [status]) == set()


def test_an_unchanged_file_is_not_read_again(source: SourceWorld) -> None:
    source.make_topic()
    put(source, {1: "a"})
    assert source.run_once().counters["rows_read"] == 1
    with source.running() as service:
        wait_until(lambda: service.status("in").state is RouteState.running)
        assert service.status("in").counters["rows_read"] == 0


@pytest.mark.parametrize("name", ["rows.csv", "rows.json", "rows.parquet"])
def test_a_file_that_was_cut_short_is_not_taken_and_the_next_whole_one_is(source: SourceWorld, name: str) -> None:
    source.make_topic()
    rows = {number: f"plan {number}" for number in range(100)}
    put(source, rows, name)
    with source.running() as service:
        wait_until(lambda: source.in_topic() == expected(rows))
        put(source, dict.fromkeys(rows, "changed"), name, cut=3)
        wait_until(lambda: service.status("in").state is RouteState.waiting, what="the source to wait")
        assert "not a whole file" in str(service.status("in").last_error)
        assert source.in_topic() == expected(rows)
        put(source, {**rows, 1: "x"}, name)
        wait_until(lambda: source.in_topic() == expected({**rows, 1: "x"}))


@pytest.mark.parametrize("left", [0, 50])
def test_an_empty_or_halved_file_deletes_nothing(source: SourceWorld, left: int) -> None:
    source.make_topic()
    rows = {number: f"plan {number}" for number in range(100)}
    put(source, rows)
    with source.running() as service:
        wait_until(lambda: source.in_topic() == expected(rows))
        put(source, dict.fromkeys(range(left), "changed"))
        wait_until(lambda: is_held(service))
        assert source.in_topic() == expected(rows)
        put(source, rows)
        wait_until(lambda: has_read(service))
    assert source.records() == 100


def test_a_file_that_is_replaced_all_the_time_gives_one_whole_version_after_another(source: SourceWorld) -> None:
    """Every row carries its version: all rows of the topic have the same one after every transaction."""
    source.make_topic(partitions=1)
    put(source, dict.fromkeys(range(2000), "v0"))
    done = threading.Event()

    def replace() -> None:
        version = 0
        while not done.is_set():
            version += 1
            put(source, dict.fromkeys(range(2000), f"v{version}"))

    with source.running():
        wait_until(lambda: source.in_topic())
        writer = threading.Thread(target=replace)
        writer.start()
        wait_until(lambda: source.records() >= 10_000, what="five versions")
        done.set()
        writer.join()
    values = [message.value() for message in source.cluster.messages(source.topic)]
    for start in range(0, len(values) - len(values) % 2_000, 2_000):
        versions = {value.rpartition(b"v")[2] for value in values[start : start + 2_000] if isinstance(value, bytes)}
        assert len(versions) == 1


def test_what_is_configured_otherwise_is_read_again_though_the_file_is_the_same(source: SourceWorld) -> None:
    source.make_topic()
    put(source, {1: "a"})
    source.run_once()
    source.origin["file"]["columns"] = "id string, plan string"
    with source.running():
        wait_until(lambda: source.in_topic() == {b"1": b'{"id":"1","plan":"a"}'}, what="the other type")


def test_a_source_whose_times_the_brokers_refuse_says_what_to_set_and_goes_on_then(
    source: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a host whose clock is two hours ahead of theirs."""
    source.make_topic(message_timestamp_after_max_ms="3600000")
    put(source, {1: "a"})

    def produce_ahead(
        producer: TransactionalProducer, topic: str, keys: Sequence[bytes], values: Sequence[bytes | None], *_: object
    ) -> None:
        ahead_ms = time.time_ns() // 10**6 + 7_200_000
        dated: list[DatedRecord] = [(key, value, [], ahead_ms) for key, value in zip(keys, values, strict=True)]
        producer.produce_dated(topic, dated)

    with monkeypatch.context() as patched:
        patched.setattr(TransactionalProducer, "produce", produce_ahead)
        with source.running() as service:
            wait_until(lambda: "set the clock" in str(service.status("in").last_error), what="what to do")
            assert service.status("in").state is RouteState.waiting
            patched.undo()
            wait_until(lambda: source.in_topic() == expected({1: "a"}), what="the rows")


def test_a_file_that_is_configured_as_before_is_read_again_if_what_was_between_was_not_written_to_its_end(
    source: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.make_topic(partitions=1)
    put(source, {1: "a", 2: "b"})
    source.run_once()
    tries = itertools.count()

    def one_and_no_more(differences: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if next(tries) == 0:
            yield next(batch for batch in differences if batch.num_rows).slice(0, 1)
        raise Unreachable("the brokers went away")

    with monkeypatch.context() as patched:
        patched.setattr(writing, "_gathered", one_and_no_more)
        source.origin["file"]["columns"] = "id string, plan string"
        with source.running() as service:
            wait_until(lambda: service.status("in").state is RouteState.waiting, what="the end in the middle")
    assert source.records() == 3
    source.origin["file"]["columns"] = "id bigint, plan string"
    with source.running():
        wait_until(lambda: source.in_topic() == expected({1: "a", 2: "b"}), what="the rows as they were")


def test_a_file_is_read_again_if_another_instance_has_written_another_one_meanwhile(source: SourceWorld) -> None:
    source.make_topic()
    put(source, {1: "a", 2: "b"})
    source.run_once()
    own, origin = source.directory, source.origin
    source.directory = own / "another host"
    source.directory.mkdir()
    put(source, {1: "c", 2: "d"}, "others.csv")
    source.run_once()
    source.directory, source.origin = own, origin
    with source.running():
        wait_until(lambda: source.in_topic() == expected({1: "a", 2: "b"}), what="the rows of the file")


def test_what_is_left_out_is_told_although_the_file_was_away_for_a_moment(source: SourceWorld) -> None:
    source.make_topic(max_message_bytes="2000")
    path = put(source, {1: "a", 7: "x" * 3_000})
    away = path.with_suffix(".away")
    with source.running() as service:
        wait_until(lambda: has_read(service), what="a reading")
        assert "larger than" in str(service.status("in").details["warnings"])
        path.rename(away)
        wait_until(lambda: service.status("in").state is RouteState.waiting, what="trouble")
        away.rename(path)
        wait_until(lambda: service.status("in").state is RouteState.running, what="the file")
        assert service.status("in").counters["readings"] == 1
        assert "larger than" in str(service.status("in").details["warnings"])
