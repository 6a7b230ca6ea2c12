"""The gate of a worker that comes while the brokers of its tables are away."""

import time
from contextlib import closing

import pyarrow as pa
import pytest

from enrich.base.errors import Unreachable
from enrich.host.reader.reading import AgentReader
from enrich.stage.task.freshness import freshness_rules
from enrich.stage.worker.gate import Gate
from stores.clock import SystemClock
from stores.table import Status
from tests.support.waiting import wait_until

FRESHNESS = {"bound": "3s", "deadline": "8s"}


def new_worker(reader, pipeline):
    """What the first look-up of a worker that comes now finds."""
    (rule,) = freshness_rules(pipeline, ["users"])
    gate = Gate(reader, [rule], SystemClock())
    view = gate.view(rule, gate.enter())
    return Status(view.lookup(pa.array([b"ann"]), ["plan"]).status[0].as_py())


def test_rows_that_were_complete_are_served_marked_to_workers_that_come_later(world):
    world.users(freshness=FRESHNESS)
    marking = world.pipeline
    world.document["tables"]["users"]["freshness"] = {**FRESHNESS, "on_stale": "fail"}
    failing = world.pipeline
    with closing(AgentReader(marking)) as reader:
        reader.wait_until_ready(deadline_s=60)
        wait_until(lambda: new_worker(reader, marking) == Status.HIT, what="fresh rows")
        world.cluster.topics.delete(world.topic("table.users"))

        def is_old():
            return SystemClock().now_ms() - (reader.snapshot().views["users"].complete_through or 0) > 4_000

        wait_until(is_old, what="rows older than their bound")
        began = time.monotonic()
        assert new_worker(reader, marking) == Status.STALE
        assert time.monotonic() - began < 8
        with pytest.raises(Unreachable):
            new_worker(reader, failing)
        world.close()  # and the agent that comes now cannot find out whether its rows are complete
        assert new_worker(reader, marking) == Status.STALE
