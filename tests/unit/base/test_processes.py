import platform
import subprocess
import sys

import pytest

from enrich.base.processes import Identity, WatchedProcess, identify, stat
from tests.support.descriptors import no_more_files, open_files
from tests.support.processes import kill
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
    # The thread that it began with ends, and nothing else.
    number = {"x86_64": 60, "aarch64": 93}[platform.machine()]
    code = (
        "import ctypes, sys, threading\n"
        "threading.Thread(target=sys.stdin.read).start()\n"
        f"ctypes.CDLL(None).syscall({number}, 0)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        wait_until(lambda: (found := stat(process.pid)) and found.state == "Z", what="the end of its first thread")
        assert identify(process.pid) is not None
        process.kill()
        wait_until(lambda: identify(process.pid) is None, what="the end of the process")


def test_a_later_process_with_the_same_id_is_another_one(other):
    before = open_files()
    assert not WatchedProcess(Identity(other.pid, 1)).lives()
    assert open_files() == before


def test_no_descriptor_stays_open_and_proc_answers_without_one(other):
    identity = identity_of(other)
    with no_more_files(), pytest.raises(OSError, match="open files"):
        WatchedProcess(identity)
    before = open_files()
    watched = WatchedProcess(identity)
    assert watched.lives()
    watched.close()
    assert open_files() == before
    assert watched.lives()
