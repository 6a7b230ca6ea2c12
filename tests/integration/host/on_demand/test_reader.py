"""Readers of a real agent: a look-up never waits, what it missed is there soon, and who wants to wait can."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from enrich.config import Pipeline, load_text
from enrich.host.reader.reading import AgentReader
from stores.table import Status
from tests.support.processes import kill
from tests.support.servers.rows_by_key import RowsByKey, rows_by_key
from tests.support.stores.directories import fast_directory
from tests.support.waiting import wait_until

PIPELINE = """
name: test
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
state_dir: {folder}
tables:
  limits: {{loader: {{http: "{url}"}}, on_demand: true, columns: "rps int", access: {access}}}
"""


class Reading:
    def __init__(self, pipeline: Pipeline) -> None:
        self.reader = AgentReader(pipeline, holder=os.getpid)

    def found(self, *keys: str) -> list[int | None]:
        found = self.reader.snapshot().table("limits").lookup(pa.array(keys, pa.string()), ["rps"])
        rows = [None if row is None else row["rps"] for row in found.values.to_pylist()]
        hits = [status == Status.HIT for status in found.status.to_pylist()]
        assert hits == [row is not None for row in rows]
        return rows

    def until_found(self, **rows: int) -> None:
        wait_until(lambda: self.found(*rows) == list(rows.values()), what=f"the rows {rows}")


@pytest.fixture
def source() -> Iterator[RowsByKey]:
    with rows_by_key(ann={"rps": 1}, bob={"rps": 2}) as source:
        yield source


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_directory() as directory:
        yield directory


@pytest.fixture
def reading(source: RowsByKey, folder: Path) -> Iterator[Reading]:
    text = PIPELINE.format(folder=folder, url=source.url, access="auto").replace(", access: auto", "")
    reading = Reading(load_text(text))
    reading.reader.wait_until_ready(deadline_s=60)
    try:
        yield reading
    finally:
        pid = reading.reader.header().pid
        reading.reader.close()
        kill(pid)


def test_what_a_look_up_misses_is_there_soon(reading: Reading, source: RowsByKey) -> None:
    assert reading.found("ann", "nobody") == [None, None]
    reading.until_found(ann=1)
    wait_until(lambda: source.asked["nobody"] == 1, what="the question")
    for _ in range(5):
        assert reading.found("ann", "nobody") == [1, None]
    assert source.asked["nobody"] == source.asked["ann"] == 1


def test_look_ups_go_on_while_the_source_hangs(reading: Reading, source: RowsByKey) -> None:
    reading.found("ann")
    reading.until_found(ann=1)
    source.gate.clear()
    for number in range(20):
        assert reading.found("ann", f"k{number}") == [1, None]
    wait_until(lambda: sum(source.asked.values()) > 2, what="questions that hang")
    assert reading.found("ann") == [1]


def test_who_waits_finds_the_row_and_does_not_wait_for_one_that_is_not_there(
    reading: Reading, source: RowsByKey
) -> None:
    began = time.monotonic()
    reading.reader.load("limits", [b"ann", b"nobody"], patience_s=600.0)
    assert time.monotonic() - began < 300
    assert reading.found("ann", "nobody") == [1, None]
    source.gate.clear()
    reading.reader.load("limits", [b"bob"], patience_s=0.2)
    assert reading.found("bob") == [None]


def test_another_agent_has_the_rows_and_is_told_what_the_last_one_was(reading: Reading, source: RowsByKey) -> None:
    reading.found("ann")
    reading.until_found(ann=1)
    source.stop()
    reading.found("bob")
    kill(reading.reader.header().pid)
    assert reading.found("ann") == [1]
    source.start()
    reading.until_found(ann=1, bob=2)
