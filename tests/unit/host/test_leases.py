import os
import resource
import subprocess
import sys
from contextlib import ExitStack

import pytest

from enrich.base.processes import identify
from enrich.host.ipc.leases import LeaseWatch, grandparent, take_lease
from tests.support.descriptors import no_more_files
from tests.support.processes import kill
from tests.support.waiting import wait_until


@pytest.fixture
def executor():
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def watch(tmp_path):
    watch = LeaseWatch(tmp_path / "leases")
    yield watch
    watch.close()


def test_no_lease_is_no_holder(watch):
    assert watch.living() == set()


def test_a_lease_lasts_as_long_as_its_process_and_its_file_goes_with_it(tmp_path, watch, executor):
    take_lease(tmp_path / "leases", executor.pid)
    take_lease(tmp_path / "leases", executor.pid)
    assert watch.living() == {identify(executor.pid)}
    kill(executor.pid)
    wait_until(lambda: watch.living() == set(), what="the end of the lease")
    assert list((tmp_path / "leases").iterdir()) == []


def test_a_process_that_got_the_id_of_an_ended_holder_keeps_nothing_alive(tmp_path, watch, executor):
    (tmp_path / "leases").mkdir()
    (tmp_path / "leases" / f"{executor.pid}-1").touch()
    assert watch.living() == set()
    assert list((tmp_path / "leases").iterdir()) == []


def test_a_lease_left_by_a_process_that_ended_before_the_agent_started_counts_for_nothing(tmp_path, watch, executor):
    take_lease(tmp_path / "leases", executor.pid)
    executor.kill()
    executor.wait()
    assert watch.living() == set()


def test_a_lease_for_a_process_that_is_gone_is_not_taken(tmp_path, executor):
    executor.kill()
    executor.wait()
    take_lease(tmp_path / "leases", executor.pid)
    assert not (tmp_path / "leases").exists()


def test_a_worker_finds_its_executor_as_its_grandparent():
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    code = "from enrich.host.ipc.leases import grandparent; print(grandparent())"
    done = subprocess.run([sys.executable, "-c", nested, code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == os.getpid()
    assert grandparent() > 1


def test_an_agent_with_very_many_files_open_sees_who_needs_it(tmp_path, watch, executor):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, hard), hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1_100):
            held.callback(os.close, os.dup(0))
        take_lease(tmp_path / "leases", executor.pid)
        assert watch.living() == {identify(executor.pid)}


def test_without_a_descriptor_left_nobody_loses_a_lease(tmp_path, watch, executor):
    take_lease(tmp_path / "leases", executor.pid)
    with no_more_files(), pytest.raises(OSError, match="open files"):
        watch.living()
    assert watch.living() == {identify(executor.pid)}
