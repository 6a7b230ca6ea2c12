"""docs/tutorial.md, done as it stands there: from an empty folder to an enriched topic, with a broker of its own."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.spark.quick_jvm import quick_jvm
from tests.support.waiting import GUARD_S, wait_until

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
RESTART = "Ctrl-C (it finishes the batch under way) and start it again"


class Terminals:
    """Two terminals in one folder. The stage runs in the second."""

    def __init__(self, folder: Path) -> None:
        bin_ = folder / "bin"
        bin_.mkdir()
        # The command, but with brokers that start as those of tests do.
        command = f"exec {shlex.quote(sys.executable)} -m tests.support.quick_enrich"
        (bin_ / "enrich").write_text(f'#!/bin/sh\n{command} "$@"\n')
        (bin_ / "enrich").chmod(0o755)
        path = os.pathsep.join(map(str, (bin_, Path(sys.executable).parent, os.environ["PATH"])))
        self._environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        self._environment["SPARK_SUBMIT_OPTS"] = quick_jvm()
        self._environment.pop("BROKERS", None)
        self.folder = folder
        self._log = (folder / "stage.log").open("wb")
        self._stage: subprocess.Popen[bytes] | None = None

    def run(self, script: str, *, check: bool = True) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )
        stage = (self._log.name, self._stage and self._stage.poll())
        assert done.returncode == 0 or not check, f"{script}\n{done.stdout}{done.stderr}\n{stage}"
        return done.stdout

    def start_stage(self, command: str) -> None:
        self._stage = subprocess.Popen(
            shlex.split(f"{self.folder.parent}/bin/{command}"),
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def stop_stage(self) -> None:
        """Ctrl-C."""
        if self._stage is None:
            return
        self._stage.send_signal(signal.SIGINT)
        assert self._stage.wait(GUARD_S) == 0, Path(str(self._log.name)).read_text()
        self._stage = None

    def close(self) -> None:
        if self._stage is not None:
            self._stage.kill()
            self._stage.wait()
        for command in ("enrich agent stop -c pipeline.yaml", "enrich dev reset --yes"):
            self.run(command, check=False)
        self._log.close()


@pytest.fixture
def terminals(tmp_path):
    terminals = Terminals(tmp_path)
    yield terminals
    terminals.close()


def test_the_tutorial_works_as_it_stands_there(terminals):
    stage, shown, compared = "", "", 0
    row: dict[str, object] = {}
    (make_folder, *steps) = re.findall(r"```(sh|json)\n(.*?)```", PAGE, re.DOTALL)
    terminals.run(make_folder[1])
    terminals.folder /= "plays"
    assert RESTART in PAGE
    for kind, text in steps:
        if kind == "json":
            # Of several partitions, in whichever order they answer.
            expected = text.splitlines()
            assert sorted(shown.splitlines()[-len(expected) :]) == sorted(expected)
            compared += 1
        elif text.startswith("enrich run"):
            stage = text
            terminals.start_stage(stage)
        elif text.startswith("enrich agent stop"):
            terminals.stop_stage()
            terminals.run(text)
        elif text.startswith("enrich table get"):
            as_json = f"{text.strip()} --json"
            # The page says usually. Exits with 1 as long as there is none.
            wait_until(lambda: holds(terminals.run(as_json, check=False), row), what=f"{row}")  # noqa: B023 - waited for
            terminals.run(text)
        else:
            shown = terminals.run(text)
        if put := re.match(r"enrich table put users \w+ '(.*?)'", text):
            row = json.loads(put[1])
        if "on_miss: dlq" in text:
            terminals.stop_stage()
            terminals.start_stage(stage)
    assert compared == 3
    assert "running" not in terminals.run("enrich dev status")


def holds(shown: str, row: dict[str, object]) -> bool:
    return any(row.items() <= json.loads(line)["value"].items() for line in shown.splitlines())
