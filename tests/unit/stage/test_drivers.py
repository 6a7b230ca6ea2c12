"""Whether another driver is at work on a checkpoint, and how long a newer one waits for its end."""

import signal
import subprocess
import sys
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import psutil
import pytest

from enrich.base.processes import started_at
from enrich.stage.progress import drivers
from enrich.stage.progress.drivers import NAME, Driver, at_work, is_at_work, wait_for_others
from tests.support.processes import kill, without_first_thread


class Texts(dict[str, str]):
    def read(self, name):
        return self.get(name)

    def write(self, name, text):
        self[name] = text

    def delete(self, name):
        self.pop(name, None)


@pytest.fixture
def another():
    """A driver in a process of its own, which a test may kill; nobody asks for its end meanwhile."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield replace(Driver.here(), pid=process.pid, started=psutil.Process(process.pid).create_time())
        process.kill()


def waits(checkpoint):
    """Whether it does so until its patience ends."""
    asked = count()
    wait_for_others(checkpoint, lambda: next(asked) > 0, patience_s=60)
    return next(asked) > 1


def test_a_driver_is_waited_for_while_it_is_at_work(another):
    checkpoint = Texts()
    assert not waits(checkpoint)
    checkpoint.write(NAME, another.to_text())
    assert is_at_work(checkpoint)
    assert waits(checkpoint)


def test_one_that_was_killed_on_this_host_is_not_waited_for_and_one_on_another_only_for_a_while(another):
    checkpoint = Texts({NAME: replace(another, started=another.started - 100).to_text()})
    assert not waits(checkpoint), "its process id is another's by now"
    checkpoint.write(NAME, another.to_text())
    psutil.Process(another.pid).send_signal(signal.SIGKILL)
    wait_for_others(checkpoint, lambda: False, patience_s=60)
    assert not is_at_work(checkpoint)
    checkpoint.write(NAME, replace(another, host="another").to_text())
    assert waits(checkpoint)
    wait_for_others(checkpoint, lambda: False, patience_s=0)


def test_one_is_waited_for_also_if_the_clock_of_its_host_was_set_meanwhile(monkeypatch):
    checkpoint = Texts()
    with at_work(checkpoint):
        monkeypatch.setattr(drivers, "started_at", lambda process: started_at(process) + 3_600)
        assert is_at_work(checkpoint)
        assert waits(checkpoint)
        me = Driver.here()
        checkpoint.write(NAME, replace(me, started=me.started - 1).to_text())
        assert not is_at_work(checkpoint), "its process id is another's by now"


def test_one_whose_first_thread_has_ended_is_at_work_until_the_last_one_has(another):
    with without_first_thread() as process:
        driver = replace(another, pid=process.pid, started=psutil.Process(process.pid).create_time())
        assert is_at_work(Texts({NAME: driver.to_text()}))
        kill(process.pid)
        assert not is_at_work(Texts({NAME: driver.to_text()}))


def test_one_that_has_begun_meanwhile_is_waited_for_as_long_as_the_first(another, monkeypatch):
    """After a power cut both wait for a driver of a host that is gone."""
    checkpoint = Texts({NAME: replace(another, host="gone").to_text()})
    clock = SimpleNamespace(now=0.0)

    def sleep(seconds):
        clock.now += seconds
        if clock.now == 19.0:
            checkpoint.write(NAME, replace(another, host="another").to_text())

    monkeypatch.setattr(drivers, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    wait_for_others(checkpoint, lambda: False, patience_s=20)
    assert 39 <= clock.now < 40


def test_a_driver_takes_out_its_own_name_only(another):
    checkpoint = Texts()
    with at_work(checkpoint):
        assert is_at_work(checkpoint)
    assert checkpoint == {}
    with at_work(checkpoint):
        checkpoint.write(NAME, another.to_text())
    assert checkpoint == {NAME: another.to_text()}
