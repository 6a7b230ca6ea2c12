"""Ctrl-C while a program starts: people who have seen a mistake press it at once. And what ends one at once."""

import os
import signal
import subprocess
import sys

import pytest

# The signal comes when the first module that takes a while is imported.
_PROGRAM = """
import importlib.abc, runpy, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("enrich.config", "typer"):
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


PROGRAMS = ["enrich", "jobs.enrich_stage", "jobs.audit", "sync_service", "edge_service", "observe_service"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_is_interrupted_while_it_imports_ends_by_the_signal_and_without_a_traceback(program):
    done = subprocess.run([sys.executable, "-c", _PROGRAM, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


_END = """
import signal
from enrich.base.interrupts import end_at_once

end_at_once(signal.SIGTERM)
"""
_FIRST = ["unshare", "--pid", "--fork"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--pid", "--fork"]
"""What a command begins with that is to be the first process of a container."""


@pytest.mark.parametrize(("before", "code"), [([], -signal.SIGTERM), (_FIRST, 128 + signal.SIGTERM)])
def test_what_ends_at_once_does_so_as_the_first_process_of_a_container_too(before, code):
    """The kernel keeps signals from that one which it does not handle."""
    if before and subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces of processes here")
    done = subprocess.run([*before, sys.executable, "-c", _END], check=False)
    assert done.returncode == code
