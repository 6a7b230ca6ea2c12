"""Ctrl-C while a program starts: people who have seen a mistake press it at once."""

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
