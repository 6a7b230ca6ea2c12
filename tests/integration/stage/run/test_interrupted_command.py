"""Ctrl-C in a command that uses Spark, at whatever moment: nothing of it is left, and nothing odd is shown."""

import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from enrich.stage.progress.checkpoint import STOP_MARKER
from tests.integration.stage.run.test_run import stop_command
from tests.support.spark.quick_jvm import quick_jvm
from tests.support.waiting import GUARD_S, wait_until

_SESSION = """
import signal, sys
from enrich.stage.spark.session import stage_session
heard = []
signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
interrupt = lambda *_: signal.raise_signal(signal.SIGINT)
settings = {"spark.driver.extraJavaOptions": sys.argv[1]}
spark = stage_session("test", master="local[1]", settings=settings, started=interrupt)
interrupt()
print(len(heard))
spark.stop()
"""


_WAITING = """
import os, signal, sys, threading, time
from pyspark import SparkContext
from enrich.stage.spark.session import command_session

def interrupt():
    while SparkContext._gateway is None:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
with command_session("test", master="spark://127.0.0.1:1", settings={"spark.driver.extraJavaOptions": sys.argv[1]}):
    pass
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    source = {"topic": "in", "format": "json", "schema": "user_id string"}
    stage = {"source": source, "sink": {"topic": "out"}, "checkpoint": str(tmp_path / "checkpoint")}
    kafka = {"bootstrap_servers": "127.0.0.1:1"}
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps({"name": "test", "kafka": kafka, "stages": {"enrich": stage}}))
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["Java starts", "it waits"])
def test_a_stop_that_is_interrupted_leaves_no_java_and_no_traceback(
    file: Path, tmp_path: Path, moment: str, number: signal.Signals
) -> None:
    marker = tmp_path / "checkpoint" / STOP_MARKER
    with subprocess.Popen(
        stop_command("enrich", file), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as stopping:
        process = psutil.Process(stopping.pid)
        (java,) = wait_until(lambda: _java_of(process), what="Java")
        if moment == "it waits":
            wait_until(marker.exists, what="the marker")
            (java,) = wait_until(lambda: _java_of(process), what="Java")
        try:
            process.send_signal(number)
            # Until Java, too, has closed it.
            told, _ = stopping.communicate(timeout=GUARD_S)
        finally:
            if java.is_running():
                java.kill()
    assert stopping.returncode == -number
    assert "Traceback" not in told and "Error" not in told, told
    assert marker.exists() == (moment == "it waits")


def _java_of(process: psutil.Process) -> list[psutil.Process]:
    found = []
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # Spark's scripts have children that end at once
            if child.name() == "java":
                found.append(child)
    return found


def test_a_command_that_waits_for_a_cluster_is_not_waited_for() -> None:
    """There it may wait for hours until there is room."""
    command = [sys.executable, "-c", _WAITING, quick_jvm()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == -signal.SIGINT, done.stderr
    assert "Traceback" not in done.stderr


def test_who_heeds_ctrl_c_does_so_while_and_after_spark_starts() -> None:
    command = [sys.executable, "-c", _SESSION, quick_jvm()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
