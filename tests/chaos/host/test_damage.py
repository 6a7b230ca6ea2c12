"""Files of a store that are damaged under its agent, or while it is away: the right rows again, never fewer."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from enrich.base.errors import CorruptState, Retryable
from enrich.config import load_text
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import AgentReader
from tests.support.host.ending import stop_agent_of
from tests.support.seed import random_source, rounds
from tests.support.waiting import wait_until

NAMES = [f"user-{number}" for number in range(2_000)]


@pytest.fixture
def pipeline(stack, cluster, new_topic, tmp_path):
    topic = new_topic(partitions=2, cleanup_policy="compact")
    cluster.produce(topic, [(name.encode(), json.dumps({"plan": f"{name}-plan"}).encode()) for name in NAMES])
    pipeline = load_text(
        f"name: test\nkafka: {{bootstrap_servers: '{stack.bootstrap_servers}'}}\nstate_dir: {tmp_path}/state\n"
        f"tables: {{users: {{topic: {topic}, format: json, columns: 'plan string'}}}}\n"
    )
    yield pipeline
    stop_agent_of(pipeline)


@pytest.fixture
def reader(pipeline):
    reader = AgentReader(pipeline)
    reader.wait_until_ready(deadline_s=120)
    yield reader
    reader.close()


def damage(file: Path, random) -> None:
    """In place, as a disk does it."""
    content = bytearray(file.read_bytes())
    kind = random.choice(["flipped", "cut", "emptied", "deleted"])
    if kind == "deleted" or not content:
        file.unlink()
    elif kind == "flipped":
        for _ in range(20):
            content[random.randrange(len(content))] ^= 0x55
        file.write_bytes(content)
    else:
        file.write_bytes(content[: 0 if kind == "emptied" else random.randrange(len(content))])


def plans(reader):
    """What a job would see: the right rows, or a clear error that makes it ask again."""
    try:
        view = reader.wait_until_ready(deadline_s=120).table("users")
        found = view.lookup(pa.array(NAMES), ["plan"])
    except (CorruptState, Retryable):
        return None
    return [value and value["plan"] for value in found.values.to_pylist()]


def assert_right_in_the_end(reader):
    answers = wait_until(lambda: plans(reader), what="an answer")
    assert answers == [f"{name}-plan" for name in NAMES]


def test_a_store_that_was_damaged_while_the_agent_was_away_is_rebuilt(pipeline, reader):
    random = random_source("damage while away")
    for _ in range(rounds(2, 60)):
        stop_agent_of(pipeline)
        files = [path for path in paths_of(pipeline).rows.rglob("*") if path.is_file()]
        damage(random.choice(sorted(files)), random)
        assert_right_in_the_end(reader)


def test_an_agent_whose_rows_are_deleted_while_it_runs_loads_them_again(cluster, pipeline, reader):
    before = reader.header()
    shutil.rmtree(paths_of(pipeline).rows)
    update = [(NAMES[0].encode(), json.dumps({"plan": f"{NAMES[0]}-plan"}).encode())]
    cluster.produce(pipeline.tables["users"].topic, update)
    wait_until(lambda: reader.header().store_id != before.store_id, what="another store")
    assert reader.header().pid == before.pid
    assert_right_in_the_end(reader)


def test_rows_that_are_damaged_under_a_running_agent_are_noticed_by_who_reads_them_and_rebuilt(pipeline, reader):
    random = random_source("damage under the agent")
    before = reader.header()
    for file in paths_of(pipeline).rows.rglob("*.sst"):
        content = bytearray(file.read_bytes())
        for paths in range(random.randrange(50), len(content), 500):
            content[paths] ^= 0x55
        with file.open("r+b") as opened:  # the very file that the agent and the readers have open
            opened.write(content)
    assert_right_in_the_end(reader)
    wait_until(lambda: reader.header().store_id != before.store_id, what="the new store")
    assert_right_in_the_end(reader)
    assert reader.header().pid == before.pid
