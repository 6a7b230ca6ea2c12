"""`enrich table get|scan|history`: rows from this host's copy, the agent started when there is none."""

import json
import subprocess
import sys


def enrich(*arguments):
    command = [sys.executable, "-m", "enrich", "table", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_rows_are_got_scanned_and_shown_with_their_past(config, produce_users):
    produce_users(ann={"plan": "free", "rps": 1}, bob={"plan": "pro"}, eve={"plan": "free"})
    produce_users(ann={"plan": "pro", "rps": 2}, eve=None)

    done = enrich("get", "users", "ann", "-c", config, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = lines(done)
    assert list(row) == ["key", "value", "partition", "offset", "timestamp"]
    assert (row["key"], row["value"]) == ("ann", {"plan": "pro", "rps": 2})

    done = enrich("get", "users", "bob", "eve", "zoe", "-c", config, "--json")
    assert done.returncode == 1
    assert [row["key"] for row in lines(done)] == ["bob"]
    assert done.stderr.splitlines() == ["eve is deleted", "zoe is not there"]

    scanned = enrich("scan", "users", "-c", config, "--json")
    assert [(row["key"], row["value"]["plan"]) for row in lines(scanned)] == [("ann", "pro"), ("bob", "pro")]
    assert [row["key"] for row in lines(enrich("scan", "users", "--prefix", "b", "-c", config, "--json"))] == ["bob"]
    assert [row["key"] for row in lines(enrich("scan", "users", "--limit", "1", "-c", config, "--json"))] == ["ann"]

    produce_users(ann={"plan": "max"})
    enrich("get", "users", "ann", "-c", config)
    past = lines(enrich("history", "users", "ann", "-c", config, "--json"))
    assert past[-1]["value"]["plan"] in {"pro", "max"}
    assert enrich("history", "users", "zoe", "-c", config).returncode == 1
    assert "ann" in enrich("get", "users", "ann", "-c", config).stdout


def test_a_misspelt_table_is_a_usage_error_that_names_those_there_are(config):
    done = enrich("get", "user", "ann", "-c", config)
    assert done.returncode == 2
    assert "choose from users" in done.stderr


def test_a_broker_that_does_not_answer_ends_with_3_at_the_deadline(config, tmp_path):
    path = tmp_path / "unreachable.yaml"
    path.write_text(config.read_text().replace(config.read_text().split("'")[1], "127.0.0.1:1"))
    done = enrich("get", "users", "ann", "-c", path, "--deadline", "2")
    assert done.returncode == 3
    assert "not ready within 2 s: table users" in done.stderr
    subprocess.run([sys.executable, "-m", "enrich", "agent", "stop", "-c", path], check=True, capture_output=True)


def test_a_table_whose_topic_there_is_not_is_not_waited_for(config, tmp_path):
    path = tmp_path / "misspelt.yaml"
    path.write_text(config.read_text().replace("topic: ", "topic: no-", 1))
    done = enrich("get", "users", "ann", "-c", path)
    assert done.returncode == 2
    assert "create the topic (enrich topics apply), or correct its name" in done.stderr
    subprocess.run([sys.executable, "-m", "enrich", "agent", "stop", "-c", path], check=True, capture_output=True)
