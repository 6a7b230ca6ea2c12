"""The demo's processes: what a deployment would run, each in a container of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from enrich.base.errors import Fatal
from enrich.demo import child

_END_S = 120.0
_LAST_LINES = 5


class Program:
    """A command of `enrich` that keeps running. It is started again after it was killed, as an orchestrator does it.

    It ends with the thread that starts it, even if that is killed.
    """

    def __init__(self, name: str, words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self._command = [sys.executable, "-m", child.__name__, str(os.getpid()), "--log-level", "info", *words]
        self._environment = environment
        self._folder = folder
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=dict(self._environment),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C must reach only the demo, which ends its programs itself.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return -1 if self._process is None else self._process.pid

    def log(self) -> str:
        with suppress(FileNotFoundError):
            return self._log.read_text(encoding="utf-8", errors="replace")
        return ""

    def require_running(self) -> None:
        """Raises Fatal, with the last lines of its log, if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            words = " | ".join(self.log().splitlines()[-_LAST_LINES:])
            raise Fatal(f"the demo's {self.name} ended with {self._process.returncode}: {words}")

    def kill(self) -> int:
        """By kill -9, in the middle of what it does. Returns its process id."""
        process = self._process
        self._process = None
        if process is None:
            raise Fatal(f"the demo's {self.name} is not running")
        process.kill()
        process.wait()
        return process.pid

    def ask_to_end(self) -> None:
        """As a deployment would: it finishes what is under way."""
        if self._process is not None:
            self._process.terminate()

    def end(self) -> int:
        """The same, and waits for it. Returns its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return process.returncode
