"""A disk that is full, or runs full while servers start: said in so many words, nothing left behind, mended by room."""

import errno
import json
import os
import subprocess

import pytest

from enrich.base.errors import Fatal
from enrich.dev import Stack
from enrich.dev.state import StackFolder
from tests.integration.dev.stacks import assert_clear_error
from tests.support.small_disk import UNSHARE, assert_held, run_apart


@pytest.fixture
def disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    trial = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", str(disk)], capture_output=True, check=False)
    if trial.returncode != 0:
        pytest.skip("a small disk cannot be mounted here, neither as root nor in a user namespace")
    return disk


def test_a_disk_that_runs_full_while_servers_start_is_said_leaves_no_process_and_up_works_once_there_is_room(disk):
    done = run_apart("tests.chaos.dev.disk_full", disk, timeout_s=300)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)

    full = subprocess.CompletedProcess("up", *seen["full"])
    assert_clear_error(full, 5, "the disk is full", str(disk), "free some space")
    assert seen["after_full"] == []
    assert seen["again"][0] == 0, seen["again"][2]
    assert "had died" not in seen["again"][2]  # it never was up
    assert seen["after_down"] == []


def test_a_stack_can_be_stopped_and_deleted_on_a_disk_that_is_full(disk):
    assert_held("tests.chaos.dev.stop_on_full_disk", disk)


def test_a_disk_with_too_little_room_is_said_before_anything_starts(new_stack, only_redis, monkeypatch):
    stack = new_stack()
    monkeypatch.setattr(StackFolder, "free_space", lambda _: 1 << 20)
    with pytest.raises(Fatal, match="the disk is full"):
        Stack(stack.directory).up()
    assert not (stack.directory / "redis").exists()

    monkeypatch.undo()
    assert stack.run("reset", "--yes").returncode == 0


def test_a_full_disk_that_comes_to_light_in_the_state_file_is_said_too(new_stack, only_redis, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    stack = new_stack()
    monkeypatch.setattr(StackFolder, "save", full)
    with pytest.raises(Fatal, match="the disk is full"):
        Stack(stack.directory).up()
    assert stack.processes() == []
