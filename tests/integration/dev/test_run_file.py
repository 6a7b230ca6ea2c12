"""Run files: they know the processes of a server, whatever happened to whoever started them."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError
from enrich.base.processes import Identity, identify, send, started_at
from enrich.dev.processes import launch, process, runfile
from enrich.dev.processes.runfile import SERVE, RunFile
from enrich.dev.servers.server import Command
from tests.support.processes import is_running
from tests.support.waiting import wait_until

SLEEP = Command(("sleep", "60"))
# Ignores SIGTERM and has a child that does, too.
STUBBORN = Command(("sh", "-c", "trap '' TERM; sleep 60 & wait; wait; sleep 60"))


@pytest.fixture
def run_file(tmp_path):
    run_file = RunFile(tmp_path / "run" / "test.pid")
    yield run_file
    run_file.wait_stopped(patience=0)


@pytest.fixture
def spawn(run_file, tmp_path):
    return lambda command, step=SERVE: run_file.spawn(command, step, tmp_path, tmp_path / "log")


@pytest.fixture
def taken(run_file):
    """Signs the run file, whose lock is held by a process that cannot be seen from here."""
    run_file.path.parent.mkdir()
    with run_file.path.open("ab") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        yield lambda **record: run_file.path.write_text(json.dumps({"step": "serve", **record}))


@pytest.fixture
def leader():
    """A stranger with a session of its own."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        yield identify(child.pid)
        child.kill()


@pytest.fixture
def bystander():
    with subprocess.Popen(["sleep", "60"]) as child:
        yield child
        child.kill()


def test_a_look_keeps_no_lock_in_a_process_that_is_being_started_meanwhile(run_file, spawn, monkeypatch):
    """Between its fork and its exec a process has all files of its parent: as a copy of their descriptors has."""
    spawn(Command(("true",)))
    run_file.wait_stopped(patience=10)
    copies = []
    take = runfile._try_lock

    def copied(lock):
        copies.append(os.dup(lock.fileno()))
        return take(lock)

    monkeypatch.setattr(runfile, "_try_lock", copied)
    assert run_file.is_free()
    monkeypatch.undo()
    try:
        assert run_file.is_free()
        assert spawn(SLEEP) is not None
    finally:
        for copy in copies:
            os.close(copy)


def test_a_server_that_was_spawned_is_known_and_can_be_stopped(run_file, spawn):
    assert run_file.is_free()
    child = spawn(SLEEP)
    assert run_file.running().process == child
    assert not run_file.is_free()
    run_file.ask_to_stop(signal.SIGTERM)
    assert run_file.wait_stopped(patience=10) is False
    assert run_file.is_free()
    assert run_file.running() is None
    assert not is_running(child.pid)


def test_a_step_of_the_preparation_is_no_server(run_file, spawn):
    spawn(SLEEP, "initdb")
    assert run_file.running().step == "initdb"
    assert not run_file.running().serves


def test_whoever_ignores_the_signal_is_killed_with_its_children(run_file, spawn):
    child = spawn(STUBBORN)
    wait_until(lambda: len(process.in_session(child.pid)) == 2, what="a child")
    family = process.in_session(child.pid)
    run_file.ask_to_stop(signal.SIGTERM)
    assert run_file.wait_stopped(patience=0.1) is True
    assert not any(is_running(member.pid) for member in family)


def test_children_that_outlive_their_server_keep_the_run_file_taken(run_file, spawn):
    child = spawn(Command(("sh", "-c", "sleep 60 & exec sleep 61")))
    wait_until(lambda: len(process.in_session(child.pid)) == 2, what="a child")
    os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: run_file.running() is None, what="the end of the server")
    assert not run_file.is_free()
    assert run_file.wait_stopped(patience=0) is True
    assert process.in_session(child.pid) == []


def test_a_server_is_known_although_its_starter_was_killed_right_after_the_spawn(run_file, tmp_path):
    starter = f"""
import os, pathlib, signal
from enrich.dev.processes import runfile
from enrich.dev.servers.server import Command
runfile.RunFile._signature = lambda self: os.kill(os.getpid(), signal.SIGKILL)  # right after posix_spawn
folder = pathlib.Path({str(tmp_path)!r})
runfile.RunFile(folder / "run" / "test.pid").spawn(Command(("sleep", "60")), "serve", folder, folder / "log")
"""
    killed = subprocess.run([sys.executable, "-c", starter], check=False)
    assert killed.returncode == -signal.SIGKILL
    found = run_file.running()
    assert found is not None
    assert found.serves
    run_file.wait_stopped(patience=0)
    assert not is_running(found.process.pid)


def test_a_child_that_has_not_signed_yet_is_waited_for(run_file, tmp_path):
    # It inherits the lock and signs late, as a launcher would on a machine that is very busy.
    late = (
        "import json, os, sys, time; time.sleep(0.3);"
        "started = int(open('/proc/self/stat').read().rpartition(')')[2].split()[19]);"
        f"os.pwrite({launch.RUN_FILE}, json.dumps(dict(pid=os.getpid(), started=started, step='serve')).encode(), 0);"
        "time.sleep(60)"
    )
    (tmp_path / "run").mkdir()
    descriptor = os.open(run_file.path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", late],
        {},
        file_actions=[(os.POSIX_SPAWN_DUP2, descriptor, launch.RUN_FILE)],
        setsid=True,
    )
    os.close(descriptor)
    assert run_file.record() is None
    assert run_file.running().process.pid == pid


def test_a_command_that_does_not_exist_leaves_a_line_in_the_log_and_no_process(run_file, spawn, tmp_path):
    spawn(Command(("no-such-program",)))
    wait_until(run_file.is_free, what="the end of the launcher")
    assert "no-such-program" in (tmp_path / "log").read_text() or "No such file" in (tmp_path / "log").read_text()


def test_the_exit_code_of_a_child_is_known(run_file, spawn):
    child = spawn(Command(("sh", "-c", "exit 3")))
    wait_until(run_file.is_free, what="the end")
    assert process.exit_code(child) == 3


def test_a_child_that_ends_at_once_has_signed_all_the_same(run_file, spawn, monkeypatch):
    # As on a busy machine: it signs and ends between two looks of its starter.
    look = RunFile.is_free
    monkeypatch.setattr(RunFile, "is_free", lambda self: wait_until(lambda: look(self), what="the end"))
    child = spawn(Command(("true",)))
    assert child is not None
    assert process.exit_code(child) == 0


def test_a_second_server_for_one_run_file_is_refused(spawn):
    spawn(SLEEP)
    with pytest.raises(Exception, match="another process holds"):
        spawn(SLEEP)


def test_a_server_inherits_no_secret_and_no_open_file_of_ours(spawn, run_file, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_SECRET", "hunter2")
    with (tmp_path / "ours").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        child = spawn(SLEEP)
    proc = Path("/proc", str(child.pid))
    wait_until(lambda: (proc / "cmdline").read_bytes().startswith(b"sleep"), what="the launcher to become the server")
    assert b"hunter2" not in (proc / "environ").read_bytes()
    # A program that has just begun has its libraries open for a moment; what it inherited stays.
    wait_until(
        lambda: {int(link.name) for link in (proc / "fd").iterdir()} == {0, 1, 2, launch.RUN_FILE},
        what="no open file but the server's own",
    )
    assert (proc / "fd" / "0").readlink() == Path(os.devnull)


def test_a_process_that_only_has_the_same_id_is_never_signalled(bystander):
    real = identify(bystander.pid)
    assert real is not None
    other = Identity(real.pid, real.started - 1)
    assert not process.is_alive(other)
    assert send(other, signal.SIGKILL) is False
    assert is_running(bystander.pid)
    assert send(real, signal.SIGKILL) is True
    assert bystander.wait(timeout=60) == -signal.SIGKILL


def test_a_record_of_a_reused_process_id_is_not_taken_for_the_server(run_file, bystander):
    run_file.path.parent.mkdir()
    run_file.path.write_text(f'{{"pid": {bystander.pid}, "started": 1, "step": "serve"}}')
    assert run_file.is_free()
    assert run_file.running() is None
    run_file.ask_to_stop(signal.SIGKILL)
    run_file.wait_stopped(patience=0)
    assert is_running(bystander.pid)


def test_a_server_of_another_container_or_host_is_not_stopped_and_nobody_dies_for_it(run_file, taken, leader):
    # Its number and start time are those of a process here.
    taken(pid=leader.pid, started=leader.started, place="another boot and namespace")
    assert not run_file.is_free()
    assert run_file.running() is None
    with pytest.raises(ConfigError, match="another container or on another host"):
        run_file.require_here()
    run_file.ask_to_stop(signal.SIGKILL)
    with pytest.raises(ConfigError, match="another container or on another host"):
        run_file.wait_stopped(patience=0)
    assert is_running(leader.pid)


@pytest.mark.parametrize("place", [None, process.place()])
def test_a_stranger_that_has_the_number_of_a_server_that_cannot_be_seen_is_not_killed(
    run_file, taken, leader, place, monkeypatch
):
    monkeypatch.setattr(runfile, "_DIES_WITHIN", 0.1)
    taken(pid=leader.pid, started=leader.started - 1, **({} if place is None else {"place": place}))
    with pytest.raises(ConfigError, match="another container or on another host"):
        run_file.wait_stopped(patience=0)
    assert is_running(leader.pid)


def test_what_a_server_left_behind_in_another_container_or_on_another_host_hinders_nobody(run_file, leader):
    run_file.path.parent.mkdir()
    record = {"pid": leader.pid, "started": leader.started, "step": "serve", "place": "another boot and namespace"}
    run_file.path.write_text(json.dumps(record))
    run_file.require_here()
    assert run_file.is_free()
    assert not run_file.record().serves


def test_the_open_files_of_another_container_are_not_taken_for_ours(tmp_path, monkeypatch):
    # A file there may have the name of one here.
    (tmp_path / "a.pid").touch()
    with (tmp_path / "a.pid").open() as ours:
        held = {str(tmp_path / "a.pid")}
        assert identify(os.getpid()) in process.holding(held, ours.fileno())
        monkeypatch.setattr(process, "pid_namespace", lambda: 1)
        assert process.holding(held, ours.fileno()) == []


@pytest.mark.parametrize("content", ["", "garbage", "[]", '{"pid": 1}', '{"pid": "x", "started": 1, "step": "serve"}'])
def test_a_record_that_cannot_be_read_is_none(run_file, content):
    run_file.path.parent.mkdir()
    run_file.path.write_text(content)
    assert run_file.record() is None
    assert run_file.is_free()


def test_a_dead_process_that_nobody_reaped_does_not_count_as_alive(bystander):
    one = identify(bystander.pid)
    os.kill(bystander.pid, signal.SIGKILL)
    wait_until(lambda: identify(bystander.pid) is None, what="its end")
    assert one is not None


def test_the_start_time_of_a_process_is_told_in_wall_clock_time():
    me = identify(os.getpid())
    assert me is not None
    assert time.time() - 24 * 3600 < started_at(me) <= time.time()


def test_the_memory_of_a_server_is_that_of_its_session():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        try:
            server = identify(child.pid)
            assert server is not None
            wait_until(lambda: process.memory(server) > 0, what="a process that has begun")
        finally:
            child.kill()
