"""What `enrich demo` shows is what happened, on servers of its own; afterwards nothing of it is left."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

# Whatever its servers, stage and agent leave behind becomes a child of this program, however they detached themselves.
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
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    told = {line["chapter"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert told["after"]["code"] == 0, done.stderr
    told["after"]["folders"] = _folders() - before
    return told


def test_the_first_event_after_a_change_carries_the_new_plan(chapters):
    event = chapters["change"]["event"]
    assert (event["user_id"], event["user"]["plan"]) == ("ann", "pro")
    assert event["_lineage"]["user"]["table"] == "users"


def test_events_go_on_without_redis(chapters):
    assert chapters["redis"]["enriched_since"] > 0


def test_a_killed_agent_is_replaced_by_another_process(chapters):
    assert chapters["agent"]["pid"] not in (None, chapters["agent"]["killed"])
    assert chapters["agent"]["enriched_since"] > 0


def test_every_event_came_out_once(chapters):
    end = chapters["end"]
    assert (end["missing"], end["repeated"], end["exit_code"]) == (0, 0, 0)
    assert end["enriched"] + end["dead_letters"] == end["sent"]
    assert end["dead_letters"] > 0


def test_nothing_is_left(chapters):
    assert chapters["after"]["left"] == []
    assert chapters["after"]["folders"] == set()
