"""The recipes of docs/ingest.md, run as they stand there against the program, with other ports."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from enrich.config import load
from tests.support.edge.ingesting import running, sent, write_config
from tests.support.host.ending import stop_agent_of
from tests.support.waiting import GUARD_S, wait_until

LISTEN = "listen: '127.0.0.1:0'"
PAGE = Path(__file__).parents[3] / "docs" / "ingest.md"
TOKEN = "0f4c9a1e77d25b38c6aa90431d"  # noqa: S105 - of this test


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def start(stack, tmp_path, new_topic):
    """Runs the program with one of the page's configurations."""

    def config(text):
        topic = new_topic(partitions=2)
        sections = text[text.index("ingest:") if "tables:" not in text else 0 :]
        sections = sections.replace("plays.raw", topic).replace("${PLAYS_TOKEN}", TOKEN)
        # Within braces, or on a line of its own.
        sections = sections.replace("path: /v1/plays,", f"path: /v1/plays, {LISTEN},")
        sections = sections.replace("path: /v1/plays\n", f"path: /v1/plays\n    {LISTEN}\n")
        return topic, write_config(tmp_path / "pipeline.yaml", stack.bootstrap_servers, sections)

    return config


def shell(script, folder, **variables):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def recipe(start_of_it):
    (text,) = [text for text in blocks("python") if start_of_it in text]
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(text, str(PAGE), "exec"), names)  # noqa: S102 - our page
    return names


def users(cluster, topic):
    return sorted(message.key().decode() for message in cluster.messages(topic))


def host(ingest):
    return urlsplit(ingest.url("plays")).netloc


def test_events_are_sent_with_curl(start, cluster, tmp_path):
    topic, config = start(blocks("yaml")[0])
    with running(config) as ingest:
        script = blocks("sh")[0].replace("localhost:8080", host(ingest))
        answers = shell(script, tmp_path, PLAYS_TOKEN=TOKEN)
        assert answers.startswith('{"accepted": 1}{"accepted": 2, "origins": [')
        assert f'"{topic}/' in answers
        assert users(cluster, topic) == ["alice", "alice", "bob"]


def test_events_are_sent_from_python_until_they_are_acknowledged(start, cluster):
    send = recipe("def send(")["send"]
    topic, config = start(blocks("yaml")[0])
    with running(config) as ingest:
        assert send(host(ingest), TOKEN, [{"user_id": "alice", "ts": 1}]) == {"accepted": 1}
        with pytest.raises(ValueError, match="422"):
            send(host(ingest), TOKEN, [{"user_id": "alice"}])
        with cluster.brokers_away(), pytest.raises(TimeoutError):
            send(host(ingest), TOKEN, [{"user_id": "late", "ts": 1}], deadline_s=1)
        assert send(host(ingest), TOKEN, [{"user_id": "bob", "ts": 1}]) == {"accepted": 1}
        assert {"alice", "bob"} <= set(users(cluster, topic))


def test_a_log_is_shipped_in_batches_and_the_bad_lines_are_found(start, cluster):
    ship = recipe("def ship(")["ship"]
    topic, config = start(blocks("yaml")[0])
    lines = [json.dumps({"user_id": f"u{number:03}", "ts": number}) + "\n" for number in range(300)]
    bad = ["no json\n", '{"user_id": "x"}\n']
    with running(config) as ingest:
        assert ship(host(ingest), TOKEN, [*lines[:150], bad[0], *lines[150:], bad[1]], most_events=100) == [
            line.strip() for line in bad
        ]
        assert users(cluster, topic) == [f"u{number:03}" for number in range(300)]
        assert ship(host(ingest), "wrong", lines[:2]) == [line.strip() for line in lines[:2]]


def test_a_sender_is_let_in_and_kept_out_by_a_row(start, cluster, tmp_path, new_topic):
    senders = new_topic(cleanup_policy="compact")
    topic, config = start(blocks("yaml")[1].replace("topic: senders", f"topic: {senders}"))
    put, end, delete = blocks("sh")[1].partition("enrich table delete")
    put = put.replace("plays.raw", topic).replace("TOKEN=$(openssl rand -hex 24)", f"TOKEN={TOKEN}")
    with running(config) as ingest:
        url = ingest.url("plays")
        assert sent(url, "{}", token=TOKEN) == 401
        shell(put, tmp_path)
        wait_until(lambda: sent(url, "{}", token=TOKEN).status == 200, what="the sender's row")
        shell(put.partition("enrich")[0] + end + delete, tmp_path)
        wait_until(lambda: sent(url, "{}", token=TOKEN).status == 401, what="its end")
    stop_agent_of(load(config))
