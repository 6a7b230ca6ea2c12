"""`python -m enrich.demo.child PID ...` is `enrich ...`, but it is asked to end once its parent, PID, is gone."""

import runpy
import signal
import sys

from enrich.base.processes import end_with

if __name__ == "__main__":
    end_with(int(sys.argv.pop(1)), signal.SIGTERM)
    runpy.run_module("enrich", run_name="__main__", alter_sys=True)
