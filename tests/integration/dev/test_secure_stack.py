"""A stack becomes secure later: its data and its addresses stay, and what is secret is for its owner alone."""

import signal
import subprocess
import sys

import pytest

from enrich.base.errors import ConfigError, Unreachable
from enrich.dev import Stack
from enrich.dev.processes.runfile import RunFile
from tests.support.kafka.topics import Cluster


def test_a_running_stack_gets_the_secure_listener_and_keeps_the_rest(tmp_path):
    with Stack(tmp_path / "stack") as stack:
        plain = stack.up()
        cluster = Cluster({"bootstrap.servers": plain.bootstrap_servers})
        cluster.topics.create("kept")
        cluster.produce_ids("kept", range(10))
        secure = stack.up(secure=True)
        assert (secure.bootstrap_servers, secure.redis_url) == (plain.bootstrap_servers, plain.redis_url)
        assert secure.secure_bootstrap_servers not in (None, plain.bootstrap_servers)
        assert set(cluster.ids("kept")) == set(range(10))
        assert stack.up() == secure  # from then on, also without asking
        folder = tmp_path / "stack" / "kafka"
        secrets = [folder / "server.properties", folder / "secure" / "password"]
        assert [path.stat().st_mode & 0o077 for path in secrets] == [0, 0]


def test_an_up_that_was_killed_before_it_stopped_the_broker_is_done_by_the_next(tmp_path, caplog):
    killed = """
import os, signal, sys
from enrich.dev import Stack
from enrich.dev.processes.runfile import RunFile
RunFile.ask_to_stop = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Stack(sys.argv[1]).up(secure=True)
"""
    with Stack(tmp_path / "stack") as stack:
        plain = stack.up()
        cluster = Cluster({"bootstrap.servers": plain.bootstrap_servers})
        cluster.topics.create("kept")
        cluster.produce_ids("kept", range(10))
        done = subprocess.run([sys.executable, "-c", killed, str(tmp_path / "stack")], check=False)
        assert done.returncode == -signal.SIGKILL
        secure = stack.up()
        assert secure.bootstrap_servers == plain.bootstrap_servers
        assert None not in (secure.secure_bootstrap_servers, secure.secure_password)
        assert set(cluster.ids("kept")) == set(range(10))
        assert "had died" not in caplog.text, "it was stopped"


def test_a_stack_that_cannot_become_secure_is_as_it_was(tmp_path, monkeypatch):
    with Stack(tmp_path / "stack") as stack:
        plain = stack.up()
        broker = RunFile(stack.folder.run_file("kafka"))
        before = broker.running()
        with monkeypatch.context() as patch:
            patch.setattr("enrich.dev.servers.kafka.Kafka.equip", _refuses(ConfigError("Java is missing")))
            with pytest.raises(ConfigError, match="Java is missing"):
                stack.up(secure=True)
        assert broker.running() == before, "what can be checked before is checked before the broker stops"
        cluster = Cluster({"bootstrap.servers": plain.bootstrap_servers})
        cluster.topics.create("kept")
        cluster.produce_ids("kept", range(10))
        with monkeypatch.context() as patch:
            patch.setattr("enrich.dev.stack.make_users", _refuses(Unreachable("no users")))
            with pytest.raises(Unreachable, match="no users"):
                stack.up(secure=True)
        assert stack.addresses() == plain
        assert set(cluster.ids("kept")) == set(range(10))
        assert stack.up() == plain


def _refuses(error):
    def refuse(*_):
        raise error

    return refuse
