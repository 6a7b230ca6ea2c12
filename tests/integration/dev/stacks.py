"""Stacks under test, driven by the command line as users drive them, and looked at from outside."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from enrich.dev import Stack

ENRICH = (sys.executable, "-m", "enrich")


class StackUnderTest:
    """One stack's directory. What lives in it is found without the product's help: by its directory in /proc."""

    def __init__(self, directory: Path, *, quick: bool = False) -> None:
        """`quick`: its brokers start as those of other tests do, not as users' brokers."""
        self.directory = directory
        self._enrich = (sys.executable, "-m", "tests.support.quick_enrich") if quick else ENRICH

    def command(self, *arguments: str) -> list[str]:
        return [*self._enrich, "dev", *arguments, "--dir", str(self.directory)]

    def fast_up(self) -> list[str]:
        """`up` of Redis and PostgreSQL alone, by the command's own main(): ready in half a second, a broker in two."""
        program = (
            "from enrich.cli import main; from enrich.dev import stack;"
            "stack.ALWAYS = ('redis', 'postgres');"
            "stack.Stack._addresses = lambda self, state, names: stack.Addresses(*sorted(self._running(state)));"
            "main.main()"
        )
        return [sys.executable, "-c", program, *self.command("up", "--json")[len(ENRICH) :]]

    def run(self, *arguments: str, env: Mapping[str, str | None] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs `enrich dev ...`; `env` changes variables, None removes one."""
        variables = {**os.environ, **(env or {})}
        return subprocess.run(
            self.command(*arguments),
            env={name: value for name, value in variables.items() if value is not None},
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )

    def up(self, *arguments: str) -> dict[str, str]:
        done = self.run("up", "--json", *arguments)
        assert done.returncode == 0, done.stderr
        addresses = json.loads(done.stdout)
        assert isinstance(addresses, dict)
        return addresses

    def down(self) -> None:
        done = self.run("down")
        assert done.returncode == 0, done.stderr

    def status(self) -> dict[str, dict[str, object]]:
        lines = self.run("status", "--json").stdout.splitlines()
        return {entry["server"]: entry for entry in map(json.loads, lines)}

    def pids(self) -> dict[str, int]:
        """The main processes of the servers that live, by server."""
        return {name: pid for name, entry in self.status().items() if isinstance(pid := entry["pid"], int)}

    def processes(self) -> list[str]:
        """Every living process whose working directory or arguments lie in this stack's directory."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                # The commands of the tests name the directory in their arguments too; they are no servers.
                arguments = [] if "enrich" in (line := process.cmdline()) and "dev" in line else line
                if any(str(self.directory) in text for text in (process.cwd(), *arguments)):
                    found.append(f"{process.pid} {process.name()}")
            except psutil.Error:
                continue
        return found

    def clear_away(self) -> None:
        """For the end of a test, whatever it did: by the product if that works, else by process id."""
        self.run("reset", "--yes")
        for entry in self.processes():
            psutil.Process(int(entry.split()[0])).kill()


def assert_clear_error(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """What a user sees of an error: an exit code, words that help, no traceback, nothing on stdout."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    text = " ".join(done.stderr.split())
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"


@pytest.fixture
def new_stack(tmp_path):
    """Makes stacks that are cleared away when the test ends."""
    made = []

    def make(name="stack"):
        made.append(StackUnderTest(tmp_path / name))
        return made[-1]

    yield make
    for stack in made:
        stack.clear_away()


@pytest.fixture
def only_redis(monkeypatch):
    """Stacks made by Python have Redis alone, up in a tenth of a second: for what holds for every kind of server."""
    with_redis_alone(monkeypatch)


def with_redis_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enrich.dev.stack.ALWAYS", ("redis",))
    monkeypatch.setattr(Stack, "_addresses", lambda *given: given[-1])
