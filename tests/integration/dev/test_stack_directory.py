"""Stacks and their directories: side by side, by Python, deleted, temporary."""

import json
import shutil
import signal
import subprocess
import sys

import pytest

from enrich.base.errors import ConfigError
from enrich.base.processes import pid_namespace
from enrich.dev import Stack, temporary_stack
from stores.clock import boot_id
from tests.integration.dev.stacks import StackUnderTest, assert_clear_error


def test_stacks_side_by_side_do_not_know_each_other(new_stack):
    one, other = new_stack("one"), new_stack("other")
    starts = [subprocess.Popen(stack.fast_up(), stdout=subprocess.DEVNULL) for stack in (one, other)]
    assert [start.wait(timeout=120) for start in starts] == [0, 0]
    addresses = [{entry["address"] for entry in stack.status().values()} for stack in (one, other)]
    assert len(addresses[0] | addresses[1]) == 4

    pids = other.pids()
    one.down()
    assert one.processes() == []
    assert other.pids() == pids
    assert one.run("reset", "--yes").returncode == 0
    assert not one.directory.exists()
    assert {entry["state"] for entry in other.status().values()} == {"running"}


def test_two_commands_at_once_on_one_stack_start_each_server_once(new_stack):
    stack = new_stack()
    starts = [subprocess.Popen(stack.fast_up(), stdout=subprocess.PIPE) for _ in range(3)]
    outputs = [json.loads(start.communicate(timeout=120)[0]) for start in starts]
    assert outputs == [{"bootstrap_servers": "postgres", "redis_url": "redis"}] * 3
    assert stack.pids().keys() == {"postgres", "redis"}
    assert sum("redis" in entry for entry in stack.processes()) == 1


def test_reset_shows_what_it_would_delete_and_wants_a_yes(new_stack, only_redis):
    stack = new_stack()
    Stack(stack.directory).up()
    assert_clear_error(stack.run("reset"), 4, "would delete", "redis", "MB", "--yes", str(stack.directory))
    assert len(stack.processes()) == 1

    done = stack.run("reset", "--yes")
    assert done.returncode == 0
    assert stack.processes() == []
    assert not stack.directory.exists()
    assert stack.run("reset", "--yes").stdout.startswith("nothing to delete")


@pytest.mark.parametrize("command", [["up"], ["status"], ["reset", "--yes"]])
def test_a_directory_that_is_no_stack_is_left_alone(new_stack, command):
    stack = new_stack()
    stack.directory.mkdir()
    (stack.directory / "thesis.txt").write_text("years of work")
    assert_clear_error(stack.run(*command), 2, "no stack", str(stack.directory))
    stack.down()
    assert [path.name for path in stack.directory.iterdir()] == ["thesis.txt"]


def test_commands_on_a_stack_that_does_not_exist_do_nothing_and_make_nothing(new_stack):
    stack = new_stack()
    for command in (["down"], ["status"], ["logs"], ["reset", "--yes"]):
        assert stack.run(*command).returncode == 0
    assert not stack.directory.exists()


def test_a_server_nobody_has_heard_of_is_a_usage_error_with_the_nearest_name(new_stack):
    assert_clear_error(new_stack().run("up", "--with", "registry,postgre"), 2, "'postgre'", "'postgres'")


def test_a_file_in_the_place_of_the_directory_is_an_error(new_stack):
    stack = new_stack()
    stack.directory.write_text("a file")
    assert_clear_error(stack.run("up"), 2, str(stack.directory))
    stack.directory.unlink()


def test_the_servers_of_a_deleted_directory_are_found_and_stopped(new_stack, only_redis):
    stack = new_stack()
    Stack(stack.directory).up()
    shutil.rmtree(stack.directory)
    assert len(stack.processes()) == 1
    assert "had been deleted" in stack.run("down").stderr
    assert stack.processes() == []


def test_as_a_context_manager_a_stack_is_down_at_the_end(new_stack, only_redis):
    stack = new_stack()
    with Stack(stack.directory) as handle:
        handle.up()
        assert len(stack.processes()) == 1
    assert stack.processes() == []
    assert [server.state for server in Stack(stack.directory).status()] == ["stopped"]


def test_an_error_in_equipment_comes_before_anything_starts(new_stack, monkeypatch):
    def missing(self, report):
        raise ConfigError("Java is missing")

    monkeypatch.setattr("enrich.dev.servers.kafka.Kafka.equip", missing)
    stack = new_stack()
    with pytest.raises(ConfigError, match="Java is missing"):
        Stack(stack.directory).up()
    assert stack.processes() == []


def test_no_java_is_one_clear_line_and_nothing_runs(new_stack, tmp_path):
    stack = new_stack()
    done = stack.run("up", env={"PATH": str(tmp_path), "JAVA_HOME": None})
    assert_clear_error(done, 2, "Java 17 or newer is needed", "install")
    assert stack.processes() == []


def test_a_temporary_stack_is_gone_after_its_block(only_redis, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with temporary_stack(quiet=True):
        (folder,) = (tmp_path / "enrich" / "stacks").iterdir()
        stack = StackUnderTest(folder)
        assert len(stack.processes()) == 1
    assert stack.processes() == []
    assert not folder.exists()


def test_a_temporary_stack_that_could_not_start_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ConfigError), temporary_stack(["no such server"], quiet=True):
        pass
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigError, match="Java"), temporary_stack(quiet=True):
        pass
    assert list((tmp_path / "enrich" / "stacks").iterdir()) == []


def test_a_temporary_stack_whose_owner_was_killed_is_cleared_away_by_the_next(only_redis, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    owner = """
import os, signal
from enrich.dev import stack, temporary_stack
stack.ALWAYS = ("redis",)
stack.Stack._addresses = lambda self, state: None
with temporary_stack(quiet=True):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", owner], check=False)
    assert killed.returncode == -signal.SIGKILL
    (folder,) = (tmp_path / "enrich" / "stacks").iterdir()
    orphan = StackUnderTest(folder)
    assert len(orphan.processes()) == 1
    with temporary_stack(quiet=True):
        assert orphan.processes() == []
        assert not folder.exists()


@pytest.mark.parametrize("place", [f"{boot_id()}-1", f"another-{pid_namespace()}", "1", str(pid_namespace())])
def test_a_temporary_stack_of_another_container_or_host_is_left_alone(only_redis, tmp_path, monkeypatch, place):
    """The cache folder may be shared; that no such process is seen from here says nothing. (The last two: folders of
    earlier releases, whose names tell no host.)"""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    theirs = tmp_path / "enrich" / "stacks" / f"{place}-12345-678-abc"
    theirs.mkdir(parents=True)
    with temporary_stack(quiet=True):
        pass
    assert theirs.exists()


def test_a_stack_that_runs_in_another_container_or_on_another_host_is_not_touched(new_stack, only_redis):
    stack = new_stack()
    handle = Stack(stack.directory)
    handle.up()
    run_file = handle.folder.run_file("redis")
    ours = run_file.read_bytes()
    state = handle.folder.load()
    run_file.write_text(json.dumps({**json.loads(ours), "place": "another boot and namespace"}))
    try:
        for command in ("up", "down", "reset"):
            arguments = ["--yes"] if command == "reset" else []
            assert_clear_error(stack.run(command, *arguments), 2, "another container or on another host", "--dir")
    finally:
        run_file.write_bytes(ours)
    assert handle.folder.load() == state
    assert len(stack.processes()) == 1


def test_a_frozen_command_makes_others_wait_and_not_fail(new_stack, only_redis):
    stack = new_stack()
    handle = Stack(stack.directory)
    handle.up()
    with handle.folder.locked():
        waiting = subprocess.Popen(stack.command("down"), stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(timeout=0.5)
    assert waiting.communicate(timeout=120)[0] == "stopped redis\n"
