"""Stacks and their directories: side by side, by Python, deleted, temporary."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError
from enrich.base.processes import pid_namespace
from enrich.dev import Stack, temporary_stack
from enrich.dev.processes.runfile import RunFile
from enrich.dev.state import StackFolder
from stores.clock import boot_id
from tests.integration.dev.stacks import StackUnderTest, assert_clear_error
from tests.support.processes import kill


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


def test_a_program_that_locks_its_own_pid_file_is_not_taken_for_a_server_and_its_folder_stays_as_it_is(new_stack):
    stack = new_stack()
    (stack.directory / "run").mkdir(parents=True)
    pid_file = stack.directory / "run" / "web.pid"
    # As cron and others hold theirs.
    daemon = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", daemon, str(pid_file)], stdout=subprocess.PIPE) as theirs:
        try:
            assert theirs.stdout is not None
            theirs.stdout.readline()
            assert stack.run("down").stdout == "nothing was running\n"
            assert theirs.poll() is None
        finally:
            theirs.kill()
    assert [path.name for path in stack.directory.iterdir()] == ["run"]


@pytest.mark.parametrize("command", ["up", "down", "status", "logs", "reset"])
def test_the_stack_of_another_user_is_an_error_that_says_so(new_stack, only_redis, tmp_path, command):
    stack = new_stack()
    Stack(stack.directory).up()
    handle = Stack(stack.directory)
    calls = {"reset": lambda: handle.reset(yes=True)}
    with as_another_user(tmp_path), pytest.raises(ConfigError, match="cannot be used: Permission denied"):
        calls.get(command, getattr(handle, command))()
    assert len(stack.processes()) == 1


@contextmanager
def as_another_user(folder):
    """Who may not look into this folder."""
    if os.geteuid() == 0:
        os.seteuid(65_534)
    else:
        folder.chmod(0)
    try:
        yield
    finally:
        folder.chmod(0o700) if os.geteuid() == os.getuid() else os.seteuid(os.getuid())


def test_a_file_that_is_put_there_while_reset_waits_is_not_deleted(new_stack, only_redis, monkeypatch):
    stack = new_stack()
    handle = Stack(stack.directory)
    handle.up()
    lock = StackFolder._try_lock

    def while_another_has_it(folder):
        monkeypatch.setattr(StackFolder, "_try_lock", lock)
        (stack.directory / "thesis.txt").write_text("years of work")

    monkeypatch.setattr(StackFolder, "_try_lock", while_another_has_it)
    with pytest.raises(ConfigError, match=r"also holds thesis\.txt"):
        handle.reset(yes=True)
    assert (stack.directory / "thesis.txt").exists()
    assert len(stack.processes()) == 1
    (stack.directory / "thesis.txt").unlink()


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


def test_a_directory_that_leads_nowhere_is_an_error(new_stack, tmp_path, monkeypatch):
    stack = new_stack()
    stack.directory.symlink_to(stack.directory)
    with pytest.raises(ConfigError, match=f"cannot be .*{stack.directory}"):
        Stack(stack.directory).up()
    stack.directory.unlink()
    (tmp_path / "deleted").mkdir()
    monkeypatch.chdir(tmp_path / "deleted")
    (tmp_path / "deleted").rmdir()
    with pytest.raises(ConfigError, match=r"cannot be found.*\.enrich-dev"):
        Stack(".enrich-dev")


def test_the_servers_of_a_deleted_directory_are_found_and_stopped(new_stack, only_redis):
    stack = new_stack()
    Stack(stack.directory).up()
    shutil.rmtree(stack.directory)
    assert len(stack.processes()) == 1
    assert "had been deleted" in stack.run("down").stderr
    assert stack.processes() == []


def test_a_copy_of_a_running_stack_s_folder_is_another_stack(new_stack, only_redis):
    stack, copy = new_stack(), new_stack("copy")
    Stack(stack.directory).up()
    shutil.copytree(stack.directory, copy.directory)
    before = stack.pids()
    assert {name: entry["state"] for name, entry in copy.status().items()} == {"redis": "dead"}
    assert_clear_error(copy.run("up"), 5, "of redis is taken by process", "--new-ports")
    assert copy.run("down").stdout == "nothing was running\n"
    Stack(copy.directory).up(new_ports=True)
    assert len({entry["address"] for one in (stack, copy) for entry in one.status().values()}) == 2
    assert copy.run("reset", "--yes").returncode == 0
    assert stack.pids() == before


def test_up_starts_servers_also_for_a_parent_that_ignores_the_end_of_children(new_stack):
    """They inherit that; Redis would then wait for ever for a child that rewrites its file."""
    stack = new_stack()
    ignoring = ["bash", "-c", 'trap "" CHLD; exec "$@"', "bash", *stack.fast_up()]
    done = subprocess.run(ignoring, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    for pid in stack.pids().values():
        (ignored,) = re.findall("SigIgn:\t([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
        assert not int(ignored, 16) & 1 << signal.SIGCHLD - 1


def test_up_tells_the_address_of_a_server_that_dies_as_soon_as_it_is_ready(new_stack):
    stack = new_stack()
    handle = Stack(stack.directory)

    def on_step(server, what):
        if (server, what) == ("redis", "ready"):
            record = RunFile(handle.folder.run_file(server)).running()
            assert record is not None
            kill(record.process.pid)

    assert handle.up(on_step=on_step).redis_url == stack.status()["redis"]["address"]
    assert {name: entry["state"] for name, entry in stack.status().items()} == {"kafka": "running", "redis": "dead"}


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


def test_a_cache_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path, monkeypatch):
    """As that of a user who has no home."""
    (tmp_path / "home").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    with pytest.raises(ConfigError, match=f"{tmp_path}.* set XDG_CACHE_HOME to another folder"), temporary_stack():
        pass


def test_a_temporary_stack_whose_owner_was_killed_is_cleared_away_by_the_next(only_redis, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    owner = """
import os, signal
from enrich.dev import stack, temporary_stack
stack.ALWAYS = ("redis",)
stack.Stack._addresses = lambda self, state, names: None
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
