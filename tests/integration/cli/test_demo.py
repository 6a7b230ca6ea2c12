"""What `enrich demo` shows is what happened, on a broker of its own that is gone afterwards."""

import json
import subprocess
import sys

import pytest

from enrich.demo import TOPIC, steps


def by_key(answers):
    return {a["key"]: (a["status"], a["value"] and a["value"]["plan"]) for a in answers}


@pytest.fixture(scope="module")
def lines():
    done = subprocess.run(
        [sys.executable, "-m", "enrich", "demo", "--json"], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


BEFORE = {
    "ann": ("hit", "free"),
    "bob": ("hit", "pro"),
    "eve": ("hit", "free"),
    "zoe": ("miss", None),
    None: ("null_key", None),
}
AFTER = {**BEFORE, "ann": ("hit", "pro"), "bob": ("deleted", None)}


@pytest.mark.parametrize(("step", "expected"), [(1, BEFORE), (2, AFTER), (3, BEFORE), (4, BEFORE)])
def test_each_step_answers_as_it_says(lines, step, expected):
    assert by_key([line for line in lines if line["step"] == step]) == expected


def test_later_steps_are_complete_through_a_later_time(lines):
    times = [line["complete_through"] for line in lines]
    assert times == sorted(times)
    assert times[0] < times[-1]


def test_it_runs_against_any_broker_that_does_not_have_its_topic(cluster):
    assert [step.title for step in steps(cluster.connection)][:1] == ["three users are published"]
    cluster.topics.delete(TOPIC)
