"""kill -9 of the agent while it publishes, merges and builds segments, and damage under it: readers go on."""

import json

import pyarrow as pa
import pytest

from enrich.base.errors import CorruptState, Retryable
from enrich.config import load_text
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import AgentReader
from stores.segments import SegmentsReader
from stores.segments.manifest import parse_manifest, read_raw_manifest
from stores.segments.read.view import SegmentsTable
from tests.support.host.ending import kill_agent_of
from tests.support.processes import kill
from tests.support.seed import random_source, rounds
from tests.support.waiting import wait_until

PIPELINE = """
name: test
kafka: {{bootstrap_servers: "{servers}"}}
state_dir: {state_dir}
tables:
  left: {{topic: {topic}, format: json, columns: "number int, text string", access: mapped}}
  right: {{topic: {topic}, format: json, columns: "number int, text string", access: mapped}}
"""
KEYS = [f"k{number}" for number in range(200)]


@pytest.fixture
def topic(new_topic):
    return new_topic(cleanup_policy="compact")


@pytest.fixture
def pipeline(stack, topic, tmp_path):
    text = PIPELINE.format(servers=stack.bootstrap_servers, state_dir=tmp_path / "state", topic=topic)
    pipeline = load_text(text)
    yield pipeline
    kill_agent_of(pipeline)


class Rows:
    """Record n sets one key to n, so that the position alone says what every key must hold."""

    def __init__(self, cluster, topic):
        self._cluster = cluster
        self._topic = topic
        self.count = 0

    def produce(self, records):
        numbers = range(self.count, self.count + records)
        values = [json.dumps({"number": number, "text": "x" * (number % 50)}).encode() for number in numbers]
        keys = [self.key_of(number).encode() for number in numbers]
        self._cluster.produce(self._topic, zip(keys, values, strict=True))
        self.count += records

    def key_of(self, number):
        return KEYS[number * 7919 % len(KEYS)]

    def expected(self, end):
        return {self.key_of(number): number for number in range(max(0, end - 3 * len(KEYS)), end)}


def assert_right(snapshot, rows):
    """All tables hold exactly the records below one position. Returns it."""
    views = [snapshot.table(name) for name in ("left", "right")]
    (end,) = {view.positions[0] for view in views}
    expected = rows.expected(end)
    for view in views:
        found = view.lookup(pa.array(list(expected)), ["number", "text"])
        assert [value["number"] for value in found.values.to_pylist()] == list(expected.values())
        assert [len(value["text"]) for value in found.values.to_pylist()] == [n % 50 for n in expected.values()]
    return end


def is_mapped(snapshot):
    return all(isinstance(snapshot.table(name).view, SegmentsTable) for name in ("left", "right"))


def assert_last_manifest_is_whole(pipeline, rows):
    """What stands on the disk right after a kill, for readers that need no agent."""
    reader = AgentReader(pipeline)
    specs = reader.specs
    reader.close()
    try:
        snapshot = SegmentsReader(paths_of(pipeline).segments, specs).snapshot()
    except Retryable:
        return  # killed before there were any
    if all(snapshot.has(name) for name in specs):
        assert_right(snapshot, rows)


def test_after_a_kill_at_any_instant_readers_go_on_and_never_go_back(cluster, pipeline, topic):
    random = random_source("kill an agent that publishes segments")
    rows = Rows(cluster, topic)
    rows.produce(300)
    reader = AgentReader(pipeline)
    reader.wait_until_ready(deadline_s=180)
    wait_until(lambda: is_mapped(reader.snapshot()), what="segments")
    last, seq, mapped = 0, reader.snapshot().seq, 0
    for _ in range(rounds(3, 50)):
        for _ in range(random.randrange(1, 8)):
            rows.produce(random.randrange(1, 60))
            snapshot = reader.snapshot()
            assert snapshot.seq >= seq
            end = assert_right(snapshot, rows)
            assert end >= last
            last, seq, mapped = end, snapshot.seq, mapped + is_mapped(snapshot)
        kill(reader.header().pid)
        assert_last_manifest_is_whole(pipeline, rows)
        wait_until(lambda: assert_right(reader.snapshot(), rows) == rows.count, what="the last record")
        if random.random() < 0.5:
            wait_until(lambda: is_mapped(reader.snapshot()), what="segments")
    assert mapped > 0
    reader.close()


def named_segments(folder, table):
    return [one.name for one in parse_manifest(folder, read_raw_manifest(folder)).tables[table].segments]


def test_a_segment_damaged_under_a_running_agent_is_built_anew_and_the_reader_survives(cluster, pipeline, topic):
    rows = Rows(cluster, topic)
    rows.produce(3_000)
    reader = AgentReader(pipeline)
    reader.wait_until_ready(deadline_s=180)
    wait_until(lambda: is_mapped(reader.snapshot()), what="segments")
    folder = paths_of(pipeline).segments
    for damage in ("flip", "delete", "flip"):
        lost = folder / named_segments(folder, "left")[0]
        if damage == "delete":
            lost.unlink()
        else:
            content = bytearray(lost.read_bytes())
            content[len(content) // 3] ^= 0x10
            with lost.open("r+b") as file:
                file.write(content)
        rows.produce(20)

        def is_built_anew(lost=lost):
            try:
                assert_right(reader.snapshot(), rows)
            except (CorruptState, Retryable):
                return False  # a batch that met the damage; the next snapshot does without
            return lost.name not in named_segments(folder, "left") and is_mapped(reader.snapshot())

        wait_until(is_built_anew, what="a new segment")
        wait_until(lambda: assert_right(reader.snapshot(), rows) == rows.count, what="the last record")
    reader.close()
