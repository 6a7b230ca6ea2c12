"""`enrich demo` and its terminal: it ends what it started when that goes away, and says on any what it does."""

import os
import pty
import signal
import subprocess
import sys

import pytest

_PROGRAM = """
import contextlib, signal, sys, types
import enrich.cli.main

signal.signal(signal.SIGHUP, getattr(signal, sys.argv.pop()))

@contextlib.contextmanager
def world(quiet):
    try:
        yield
    finally:
        signal.raise_signal(signal.SIGHUP)  # the shell sends one, the kernel another
        print("all has ended")

def story(*_):
    signal.raise_signal(signal.SIGHUP)
    print("it goes on")
    return []

sys.modules["enrich.demo"] = types.SimpleNamespace(demo_world=world, tell_story=story)
enrich.cli.main.main()
"""


@pytest.mark.parametrize(
    ("before", "code", "says"),
    [("SIG_DFL", 128 + signal.SIGHUP, ["all has ended"]), ("SIG_IGN", 0, ["it goes on", "all has ended"])],
    ids=["in a terminal", "under nohup"],
)
def test_the_end_of_its_terminal_ends_the_demo_with_all_that_it_started(before, code, says):
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "demo", "--json", before], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.splitlines()) == (code, says), done.stderr


_INTERRUPTED = """
import contextlib, signal, sys, types
import enrich.cli.main

@contextlib.contextmanager
def world(quiet):
    try:
        yield
    finally:
        signal.raise_signal(signal.SIGINT)
        print("all has ended")

def story(*_):
    if "--quick" not in sys.argv:
        signal.raise_signal(signal.SIGINT)
    return []

sys.modules["enrich.demo"] = types.SimpleNamespace(demo_world=world, tell_story=story)
enrich.cli.main.main()
"""


def test_who_presses_ctrl_c_is_told_that_it_ends_and_a_second_one_leaves_nothing_behind():
    command = [sys.executable, "-c", _INTERRUPTED, "demo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "all has ended\n"), done.stderr
    assert done.stderr == "ending the demo's servers and programs ...\n"


def test_ctrl_c_once_all_is_told_does_not_break_off_the_end():
    command = [sys.executable, "-c", _INTERRUPTED, "demo", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "all has ended\n"), done.stderr


_STORY = """
import contextlib, sys, types
import enrich.cli.main

def story(world, look_s, announce):
    announce("it begins")
    return []

sys.modules["enrich.demo"] = types.SimpleNamespace(demo_world=lambda quiet: contextlib.nullcontext(), tell_story=story)
enrich.cli.main.main()
"""


def test_a_terminal_that_cannot_be_drawn_on_gets_line_after_line():
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb"}
    command = [sys.executable, "-c", _STORY, "demo"]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        assert os.read(ours, 100).startswith(b"... it begins")
        os.close(ours)
