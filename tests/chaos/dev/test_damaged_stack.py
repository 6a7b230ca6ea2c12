"""Stacks whose directory, state or servers are not as they were left."""

import json

import pytest

from enrich.base.errors import Unreachable
from enrich.dev import Stack
from enrich.dev.bringup import BringUp
from enrich.dev.servers.redis import Redis
from enrich.dev.state import STATE_FILE
from tests.integration.dev.stacks import assert_clear_error
from tests.support.processes import kill


@pytest.fixture
def running(new_stack, only_redis):
    """A stack with a Redis that runs."""
    stack = new_stack()
    Stack(stack.directory).up()
    return stack


def other_version(stack):
    path = stack.directory / STATE_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}))


def garbage(stack):
    (stack.directory / STATE_FILE).write_bytes(b'{"format": 1, "serv')


@pytest.mark.parametrize("damage", [other_version, garbage])
def test_a_state_that_cannot_be_used_is_an_error_with_a_way_out_that_works(running, damage):
    code, words = {other_version: (2, "another version"), garbage: (5, "cannot be read")}[damage]
    damage(running)
    before = (running.directory / STATE_FILE).read_bytes()
    for command in ("up", "status"):
        assert_clear_error(running.run(command), code, words, "enrich dev reset --yes", str(running.directory))
    assert (running.directory / STATE_FILE).read_bytes() == before

    # What runs can be stopped by any version, and the stack can be deleted.
    assert running.run("down").stdout == "stopped redis\n"
    assert running.processes() == []
    assert running.run("reset", "--yes").returncode == 0
    assert not running.directory.exists()


def test_reset_stops_what_runs_although_the_state_is_garbage(running):
    garbage(running)
    assert running.run("reset", "--yes").returncode == 0
    assert running.processes() == []
    assert not running.directory.exists()


def test_a_stack_whose_state_was_deleted_is_not_taken_for_a_new_one(running):
    (running.directory / STATE_FILE).unlink()
    assert_clear_error(running.run("up"), 2, "no stack")
    assert running.run("down").stdout == "stopped redis\n"
    assert running.processes() == []


def test_a_server_that_ends_while_it_starts_is_quoted_and_what_was_started_is_stopped(running):
    running.down()
    (running.directory / "redis" / "appendonly.aof").write_bytes(b"this is no append-only file")
    done = running.run("up")
    words = "Bad file format reading the append only file"
    assert_clear_error(done, 5, "redis ended while it started", words, str(running.directory / "logs" / "redis.log"))
    assert running.processes() == []
    assert {entry["state"] for entry in running.status().values()} == {"stopped"}


def test_a_server_that_was_killed_but_is_not_gone_yet_is_started_again_all_the_same(running, monkeypatch, caplog):
    for pid in running.pids().values():
        kill(pid)
    monkeypatch.setattr(BringUp, "_runs", lambda *_: True)  # what a look at a dying process says
    Stack(running.directory).up()
    assert len(running.processes()) == 1
    assert "redis had died; started again" in caplog.text


def test_a_server_that_runs_but_never_answers_is_an_error_and_is_not_stopped(running, monkeypatch):
    monkeypatch.setattr(Redis, "answers", lambda *_: False)
    monkeypatch.setattr("enrich.dev.stack.SERVERS", {"redis": Redis(patience=0.2)})
    before = running.processes()
    with pytest.raises(Unreachable, match="redis runs, but has not answered"):
        Stack(running.directory).up()
    assert running.processes() == before != []


def test_a_server_that_was_started_but_never_answers_is_stopped_again(new_stack, only_redis, monkeypatch):
    monkeypatch.setattr(Redis, "answers", lambda *_: False)
    monkeypatch.setattr("enrich.dev.stack.SERVERS", {"redis": Redis(patience=0.2)})
    stack = new_stack()
    with pytest.raises(Unreachable, match="redis runs, but has not answered"):
        Stack(stack.directory).up()
    assert stack.processes() == []
