"""What `enrich demo` shows is what happened, on servers of its own; afterwards nothing of it is left."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.spark.quick_jvm import quick_jvm

CUSTOMERS = {"acme", "globex"}

# What its servers, programs and agent leave behind becomes a child of this program, however they detached themselves.
_PROGRAM = """
import ctypes, json, subprocess, sys
import psutil

PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
done = subprocess.run([sys.executable, "-m", "enrich", "demo", "--quick", "--json"], stdout=subprocess.PIPE)
left = [
    " ".join(child.cmdline())
    for child in psutil.Process().children(recursive=True)
    if child.status() != psutil.STATUS_ZOMBIE
]
print(done.stdout.decode(), json.dumps({"chapter": "after", "code": done.returncode, "left": left}), sep="")
"""


def _folders():
    return {path.name for path in Path(tempfile.gettempdir()).glob("enrich-demo-*")}


@pytest.fixture(scope="module")
def chapters():
    before = _folders()
    # Spark adds these options to those of the driver's JVM.
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": quick_jvm()}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, check=True)
    told = {line["chapter"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert told["after"]["code"] == 0, done.stderr
    told["after"]["folders"] = _folders() - before
    return told


def test_a_customer_gets_the_new_plan_after_a_change(chapters):
    event = chapters["change"]["event"]
    assert (event["user_id"], event["user"]["plan"]) == ("ann", "pro")
    assert event["_lineage"]["user"]["table"] == "users"


def test_a_killed_agent_is_replaced_by_another_process_while_events_go_on_without_redis(chapters):
    assert chapters["agent"]["pid"] not in (None, chapters["agent"]["killed"])
    assert chapters["agent"]["delivered_since"] > 0


def test_a_dead_customer_costs_the_other_one_nothing_and_gets_everything_once_it_is_back(chapters):
    told = chapters["customer"]
    assert told["breaker"] in ("open", "probing")
    assert told["retried"] > 0
    assert told["delivered_to_the_other"] > 0


def test_killed_programs_are_replaced_and_the_sender_sends_again_what_was_not_acknowledged(chapters):
    assert all(chapters[name]["pid"] != chapters[name]["killed"] for name in ("ingest", "expel"))
    assert chapters["ingest"]["sent_again"] > 0


def test_every_acknowledged_event_came_to_each_customer_by_its_origin(chapters):
    end = chapters["end"]
    assert end["acknowledged"] > 0 and end["dead_letters"] > 0
    assert end["delivered"].keys() == end["duplicates"].keys() == CUSTOMERS
    assert end["lost_origins"] == {name: [] for name in CUSTOMERS}
    assert end["lost"] == dict.fromkeys(CUSTOMERS, 0)
    # What was written twice, since the sender heard no answer, has an origin that nobody was told.
    unheard = end["written_twice"]
    for delivered in end["delivered"].values():
        assert 0 <= delivered + end["dead_letters"] - end["acknowledged"] <= unheard
    assert end["holds"] is True
    assert set(end["exit_codes"].values()) == {0}


def test_nothing_is_left(chapters):
    assert chapters["after"]["left"] == []
    assert chapters["after"]["folders"] == set()
