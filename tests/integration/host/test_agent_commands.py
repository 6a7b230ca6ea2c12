"""`enrich agent` as people and scripts use it."""

import json
import subprocess
import sys

import pytest

from enrich.base.errors import ConfigError
from enrich.config import load
from enrich.host.reader.reading import AgentReader
from tests.support.processes import is_running


def enrich(*arguments):
    command = [sys.executable, "-m", "enrich", "agent", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_no_agent_is_said_and_is_a_difference_and_stopping_it_is_fine(config):
    done = enrich("status", "-c", config)
    assert (done.returncode, done.stdout.splitlines()[0].startswith("no agent is running for")) == (1, True)
    done = enrich("stop", "-c", config)
    assert (done.returncode, done.stdout) == (0, "no agent was running\n")


def test_a_ready_table_is_shown_to_people_and_machines_and_stop_ends_the_process(config):
    reader = AgentReader(load(config))
    reader.wait_until_ready(deadline_s=120)
    reader.close()
    done = enrich("status", "-c", config, "--json")
    assert done.returncode == 0
    (line,) = map(json.loads, done.stdout.splitlines())
    assert line["table"] == "users"
    assert line["ready"] is True
    assert 0 <= line["behind_s"] < 30
    assert "ready" in enrich("status", "-c", config).stdout
    assert enrich("stop", "-c", config).returncode == 0
    assert not is_running(line["pid"])


def test_a_missing_topic_is_the_reason_that_is_shown(config):
    text = config.read_text()
    config.write_text(text + "  other: {topic: nowhere, format: json, columns: 'a string'}\n")
    reader = AgentReader(load(config))
    with pytest.raises(ConfigError, match="topic nowhere"):
        reader.wait_until_ready(deadline_s=120)
    reader.close()
    done = enrich("status", "-c", config, "--json")
    assert done.returncode == 1
    tables = {line["table"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert "create the topic" in tables["other"]["reason"]
    assert tables["users"]["ready"] is True
