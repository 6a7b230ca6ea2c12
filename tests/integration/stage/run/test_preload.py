"""Tables are preloaded before the first event, whatever happens to workers meanwhile; and tables of loaders."""

import dataclasses
import os
import threading

import numpy as np
import pyarrow as pa
import pytest

from enrich.base.errors import Unreachable
from enrich.stage.plan.plan import StagePlan
from enrich.stage.run.preload import preload
from enrich.stage.task.failures import ReportedFailure, from_report
from enrich.stage.worker.answers import Questions
from enrich.stage.worker.task import TaskAnswers
from tests.support.processes import kill, python_workers
from tests.support.waiting import wait_until


def test_a_worker_that_is_lost_while_the_tables_are_preloaded_is_replaced(spark, world, caplog):
    world.document["tables"]["users"] = {
        "topic": f"{world.document['name']}.table.users",  # which is not there yet: the preload waits
        "format": "json",
        "columns": "plan string, region string",
        "freshness": {"deadline": "100s"},
    }
    stage = world.stage("enrich", [{"table": "users", "key": "user_id", "as": "user"}])
    for idle in python_workers(os.getpid()):  # of tests before this one: whoever comes now is at the preload
        kill(idle)
    failed = []

    def load():
        try:
            preload(spark, StagePlan(spark, world.pipeline, stage).spec)
        except Exception as error:  # noqa: BLE001 - what it is, the test says
            failed.append(error)

    loading = threading.Thread(target=load)
    loading.start()
    (victim, *_) = wait_until(lambda: python_workers(os.getpid()), what="a worker at the preload")
    kill(victim)
    told = "a worker was lost while the tables were preloaded; trying again"
    wait_until(lambda: told in caplog.text, what="the loss")
    assert loading.is_alive()
    world.users()
    loading.join(100)
    assert not loading.is_alive()
    assert failed == []
    assert "no preload" not in caplog.text


@pytest.fixture
def limits(world, tmp_path):
    """A table whose rows come from a file."""
    file = tmp_path / "limits.csv"
    world.document["tables"]["limits"] = {
        "loader": {"file": str(file), "key": ["id"]},
        "columns": "rps int",
        "refresh": "1s",
        "expire": "4s",
    }
    world.stage("enrich", [{"table": "limits", "key": "user_id", "as": "limit"}], lineage=True)
    return file


def asked(spark, world, deadline_s):
    """The answer for `ann`, with this process as the worker, and another patience than five minutes."""
    spec = StagePlan(spark, world.pipeline, "enrich").spec
    rules = tuple(dataclasses.replace(rule, deadline_s=deadline_s) for rule in spec.rules)
    spec = dataclasses.replace(spec, rules=rules)
    answer = TaskAnswers(spec).answer(Questions(np.array([True]), [pa.array(["ann"])]))
    (row,) = answer.to_pylist()
    return row["object_0"], row["lineage_0"]["status"]


def test_rows_of_a_loader_answer_until_they_expire_and_again_once_the_source_is_back(spark, world, limits):
    limits.write_text("id,rps\nann,7\n")
    assert asked(spark, world, 60) == ({"rps": 7}, "hit")
    limits.unlink()

    def refused():
        try:
            # However old they are: a table with a loader has no bound but `expire`. The agent drops the rows a moment
            # before it says that the table is not ready: a task of that moment finds tombstones.
            assert asked(spark, world, 0.5) in (({"rps": 7}, "hit"), (None, "deleted"))
        except ReportedFailure as failure:
            return from_report(str(failure))

    error = wait_until(refused, what="the end of the rows")
    assert isinstance(error, Unreachable)
    assert "table limits" in error.what
    limits.write_text("id,rps\nann,8\n")
    assert asked(spark, world, 60) == ({"rps": 8}, "hit")


def test_a_source_without_rows_is_a_table_without_rows(spark, world, limits):
    limits.write_text("id,rps\n")
    assert asked(spark, world, 20) == (None, "miss")
