"""A topic that is read in a process of its own, for a program with one thread, as a load is when it begins to read."""

import json
import subprocess
import sys

import pytest

from tests.support.processes import kill

PROGRAM = """
import json, os, sys, threading
from contextlib import closing
import pyarrow as pa
from enrich.base.errors import EnrichError
from enrich.host.load.reading import reading_beside, reading_here

def say(**what):
    print(json.dumps(what), flush=True)

def gathered(batches):
    versions, positions, epochs = [], {}, {}
    for batch in batches:
        versions.append(batch.versions)
        positions.update(batch.positions)
        epochs.update(batch.epochs)
    order = [("partition", "ascending"), ("offset", "ascending")]
    return len(versions), pa.Table.from_batches(versions).sort_by(order), positions, epochs

asked = json.loads(sys.argv[1])
def refuse():
    raise BlockingIOError("no more processes")

if not asked["forks"]:
    os.fork = refuse
starts, ends = ({int(p): offset for p, offset in asked[name].items()} for name in ("starts", "ends"))
with reading_beside(asked["connection"], asked["topic"]) as read:
    children = list(map(int, open(f"/proc/self/task/{os.getpid()}/children").read().split()))
    try:
        if asked["kill"]:
            batches = read(starts, ends, {})
            next(batches)
            say(child=children[0])
            sys.stdin.readline()
        count, beside, *last = gathered(batches if asked["kill"] else read(starts, ends, {}))
        # A second time, as a load does that reads on.
        _, again, *_ = gathered(read(starts, ends, {}))
        with reading_here(asked["connection"], asked["topic"]) as read_here:
            _, here, *last_here = gathered(read_here(starts, ends, {}))
        is_same = beside == here == again and last == last_here
        say(is_same=is_same, batches=count, rows=len(beside), positions=last[0])
    except EnrichError as error:
        say(error=type(error).__name__, text=str(error))
say(children=len(children), left=sum(os.path.exists(f"/proc/{child}") for child in children))
"""


class Program:
    """Prints one JSON object a line."""

    def __init__(self, cluster, topic, ends, starts=None, *, kills=False, forks=True):
        asked = {
            "connection": cluster.connection,
            "topic": topic,
            "starts": starts or {},
            "ends": ends,
            "kill": kills,
            "forks": forks,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps(asked)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def line(self):
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def go_on(self):
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
def program():
    def started(*arguments, **settings):
        made.append(Program(*arguments, **settings))
        return made[-1]

    made: list[Program] = []
    yield started
    for each in made:
        each.process.kill()
        each.process.communicate()


def test_it_reads_what_is_read_in_the_same_process_and_ends_with_the_block(cluster, new_topic, program):
    topic = new_topic(partitions=3)
    cluster.produce_ids(topic, range(10_000))
    ends = cluster.topics.end_offsets(topic)
    cluster.produce_ids(topic, range(10_000, 10_100))
    running = program(cluster, topic, ends)
    said = running.line()
    assert said["is_same"]
    assert said["rows"] == 10_000
    assert said["positions"] == {str(partition): end for partition, end in ends.items()}
    assert running.line() == {"children": 1, "left": 0}


def test_without_another_process_it_reads_in_the_same_one(cluster, new_topic, program):
    topic = new_topic()
    cluster.produce_ids(topic, range(100))
    running = program(cluster, topic, {0: 100}, forks=False)
    assert running.line()["rows"] == 100
    assert running.line() == {"children": 0, "left": 0}


def test_large_values_come_in_pieces_and_the_positions_with_the_last_of_them(cluster, new_topic, program):
    topic = new_topic()
    cluster.produce(topic, [(b"%d" % number, b"%d" % number * 450_000) for number in range(40)])
    said = program(cluster, topic, {0: 40}).line()
    assert said["is_same"]
    assert said["rows"] == 40
    assert said["batches"] >= 4
    assert said["positions"] == {"0": 40}


def test_an_error_of_the_reading_is_raised_where_it_is_asked_for(cluster, new_topic, program):
    topic = new_topic()
    cluster.produce_ids(topic, range(10))
    said = program(cluster, topic, {0: 60}, {0: 50}).line()
    assert said["error"] == "CorruptState"
    assert topic in said["text"]


def test_a_reading_that_is_killed_can_be_tried_again(cluster, new_topic, program):
    topic = new_topic()
    cluster.produce_ids(topic, range(100_000))
    ends = cluster.topics.end_offsets(topic)
    running = program(cluster, topic, ends, kills=True)
    kill(running.line()["child"])
    running.go_on()
    said = running.line()
    assert said["error"] == "Retryable"
    assert "the process that reads its topic ended" in said["text"]
    assert running.line() == {"children": 1, "left": 0}
