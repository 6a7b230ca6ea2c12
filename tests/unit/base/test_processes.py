import subprocess
import sys

import pytest

from enrich.base.processes import Identity, WatchedProcess, identify
from tests.support.descriptors import no_more_files, watching
from tests.support.processes import kill, without_first_thread
from tests.support.waiting import wait_until


@pytest.fixture
def other():
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def identity_of(process):
    found = identify(process.pid)
    assert found is not None
    return found


def test_a_process_lives_until_it_has_ended_even_if_nobody_reaps_it(other):
    watched = WatchedProcess(identity_of(other))
    assert watched.lives()
    kill(other.pid)
    wait_until(lambda: not watched.lives(), what="the end of the process")
    watched.close()


def test_a_process_lives_as_long_as_one_of_its_threads():
    with without_first_thread() as process:
        assert identify(process.pid) is not None
        process.kill()
        wait_until(lambda: identify(process.pid) is None, what="the end of the process")


def test_a_later_process_with_the_same_id_is_another_one(other):
    assert not WatchedProcess(Identity(other.pid, 1)).lives()
    assert not watching(other.pid)


def test_no_descriptor_stays_open_and_proc_answers_without_one(other):
    identity = identity_of(other)
    with no_more_files(), pytest.raises(OSError, match="open files"):
        WatchedProcess(identity)
    watched = WatchedProcess(identity)
    assert watched.lives()
    assert len(watching(other.pid)) == 1
    watched.close()
    assert not watching(other.pid)
    assert watched.lives()


def test_a_forked_process_ends_with_what_it_returns_and_never_goes_on_as_its_parent():
    program = """
import os
from enrich.base.processes import fork
for run in (lambda: 7, lambda: 1 / 0):
    print(os.waitstatus_to_exitcode(os.waitpid(fork(run), 0)[1]), flush=True)
"""
    assert subprocess.check_output([sys.executable, "-c", program], text=True, timeout=30).split() == ["7", "1"]


def test_a_forked_process_is_killed_with_its_parent():
    program = """
import os, sys, time
from enrich.base.processes import fork
print(fork(lambda: time.sleep(600)), flush=True)
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as parent:
        assert parent.stdout is not None
        forked = identify(int(parent.stdout.readline()))
        assert forked is not None
        parent.kill()
    wait_until(lambda: identify(forked.pid) != forked, what="the end of the forked process")
