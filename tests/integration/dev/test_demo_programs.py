"""The demo's programs end with it."""

import subprocess
import sys

from enrich.base.processes import identify
from tests.support.waiting import wait_until

_DEMO = """
import os, sys, time
from pathlib import Path
from enrich.demo.programs import Program

sink = Program("sink", ["dev", "sink", "--listen", "127.0.0.1:0"], os.environ, Path(sys.argv[1]))
sink.start()
print(sink.pid, flush=True)
time.sleep(600)
"""


def test_a_program_ends_when_the_demo_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", _DEMO, str(tmp_path)], stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        program = identify(int(demo.stdout.readline()))
        assert program is not None
        log = tmp_path / "sink.log"
        wait_until(lambda: log.read_text())
        assert identify(program.pid) == program
        demo.kill()
        demo.wait()
        wait_until(lambda: identify(program.pid) != program)
