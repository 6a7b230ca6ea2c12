"""What a run of a stage does, and what it leaves alone, when it is told to stop before events flow."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from enrich.base.errors import Fenced, Retryable
from enrich.stage.progress import drivers
from enrich.stage.progress.drivers import NAME, Driver, is_at_work
from enrich.stage.run import stage_run
from enrich.stage.run.life import Phase
from enrich.stage.run.stage_run import StageRun
from enrich.stage.run.start import RunOptions
from enrich.stage.run.stopping import request_stop, require_drained


class Checkpoint(dict[str, str]):
    """Its texts, and the marker that asks for the end."""

    marked_at = None

    def read(self, name):
        return self.get(name)

    def write(self, name, text):
        self[name] = text

    def create(self, name, text):
        return self.setdefault(name, text) is text

    def delete(self, name):
        self.pop(name, None)

    def stop_marked_at(self):
        return self.marked_at

    def request_stop(self):
        self.marked_at = 7

    def forget_stop(self):
        self.marked_at = None


class Flow:
    """It notes what it is told to do."""

    plan = SimpleNamespace(spec=None, joined_by="workers")
    metrics = source = None

    def __init__(self, start):
        self._did = start.did

    def shut_out(self):
        self._did.append("shut out")

    def take_over(self):
        self._did.append("take over")

    def begin(self, watch):
        del watch
        self._did.append("begin")


class Run(StageRun):
    """One whose checks have found nothing wrong."""

    def __init__(self, checkpoint, stop):
        pipeline: Any = SimpleNamespace(name="p", stages={"enrich": SimpleNamespace(profile="latency")})
        spark: Any = None
        settings: Any = None
        super().__init__(spark, pipeline, "enrich", settings, RunOptions(), stop)
        self.did = []
        self._checkpoint = checkpoint

    def _begun(self, held: ExitStack):
        progress = SimpleNamespace(take_over=lambda: self.did.append("fence"))
        return SimpleNamespace(checkpoint=self._checkpoint, progress=progress, held=held, did=self.did)


@pytest.fixture
def older():
    """A driver of the same stage, in a process that ends when a test says so."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield replace(Driver.here(), pid=process.pid, started=psutil.Process(process.pid).create_time())
        process.send_signal(signal.SIGKILL)


@pytest.fixture
def waits(monkeypatch):
    """Does something while the run waits for the older driver, instead of waiting."""

    def instead(happens):
        monkeypatch.setattr(stage_run, "BatchFlow", Flow)
        monkeypatch.setattr(stage_run, "preload", lambda *_: None)
        clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: happens())
        monkeypatch.setattr(drivers, "time", clock)

    return instead


@pytest.mark.parametrize("by", ["signal", "marker"])
def test_a_stage_that_is_told_to_stop_while_it_waits_for_another_driver_begins_nothing(older, waits, by, monkeypatch):
    monkeypatch.setattr("enrich.stage.run.stopping._ASK_EVERY_S", 0)
    checkpoint, stop = Checkpoint({NAME: older.to_text()}), threading.Event()
    waits(stop.set if by == "signal" else lambda: request_stop(checkpoint))
    run = Run(checkpoint, stop)
    run.run()
    assert run.did == ["fence", "shut out"]
    assert run.phase == Phase.ENDED
    assert checkpoint[NAME] == older.to_text()
    # The other one is shut out: it leaves the marker to this one.
    assert checkpoint.marked_at is None
    if by == "marker":
        with pytest.raises(Retryable, match="shut out"):
            require_drained(checkpoint)


def test_if_the_other_driver_has_ended_by_then_whoever_asked_hears_of_no_trouble(older, waits, monkeypatch):
    monkeypatch.setattr("enrich.stage.run.stopping._ASK_EVERY_S", 0)
    checkpoint = Checkpoint({NAME: older.to_text()})

    def happens():
        checkpoint.delete(NAME)
        request_stop(checkpoint)

    waits(happens)
    run = Run(checkpoint, threading.Event())
    run.run()
    assert run.did == ["fence", "shut out"]
    assert checkpoint.marked_at is None
    require_drained(checkpoint)


@pytest.mark.parametrize("is_newest", [True, False])
def test_a_run_asks_whether_it_is_the_newest_only_once_others_find_it_at_work(is_newest):
    """Of two that begin at once both have found nobody: the second one finds the first, or has shut it out by then."""
    checkpoint, at_work = Checkpoint(), []

    def require_newest(_):
        at_work.append(is_at_work(checkpoint))
        if not is_newest:
            raise Fenced("another driver has taken over")

    progress, found = SimpleNamespace(require_newest=require_newest), SimpleNamespace(partitions={"in": [0]})
    start: Any = SimpleNamespace(checkpoint=checkpoint, progress=progress, found=found, name="enrich", did=[])
    start.pipeline = SimpleNamespace(name="p")
    flow: Any = Flow(start)
    order: Any = SimpleNamespace(forget_old=lambda: None)
    with suppress(Fenced), ExitStack() as start.held:
        Run._take_over(start, flow, order)
    assert at_work == [True]
    assert start.did == (["take over"] if is_newest else [])
