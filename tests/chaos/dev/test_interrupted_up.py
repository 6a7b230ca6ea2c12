"""`up` that is interrupted or killed at random instants: nothing is left that the next command does not know."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from enrich.dev import Stack
from tests.integration.dev.stacks import StackUnderTest
from tests.support.seed import random_source, rounds

TraceFunction = Callable[[FrameType, str, Any], Any]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def interrupted(stack: StackUnderTest, up: list[str], number: signal.Signals, after_s: float) -> int:
    """Sends the signal `after_s` seconds after the start of `up`. Returns its exit code."""
    with subprocess.Popen(up, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            process.wait(timeout=after_s)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        _, errors = process.communicate(timeout=180)
    assert "this is a bug" not in errors
    return process.returncode


def check_round(stack: StackUnderTest, up: list[str], number: signal.Signals, after_s: float) -> None:
    code = interrupted(stack, up, number, after_s)
    if number is signal.SIGKILL:
        assert code in (0, -signal.SIGKILL)
    elif code != 0:  # an `up` that was done before the signal says so, and its servers stay
        assert stack.processes() == [], f"exit code {code}"
    again = subprocess.run(up, capture_output=True, text=True, check=False, timeout=120)
    assert again.returncode == 0, again.stderr
    Stack(stack.directory).down()
    assert stack.processes() == []


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_up_can_be_interrupted_at_any_instant(new_stack, number):
    source = random_source(f"interrupted up, {number.name}")
    stack = new_stack()
    for _ in range(rounds(quick=1, soak=100)):
        check_round(stack, stack.fast_up(), number, source.uniform(0.1, 1.2))
        Stack(stack.directory).reset(yes=True)


def test_up_with_a_broker_can_be_interrupted_at_any_instant(new_stack):
    source = random_source("interrupted broker")
    stack = new_stack()
    for _ in range(rounds(quick=1, soak=75)):
        check_round(stack, stack.command("up"), source.choice(SIGNALS), source.uniform(0.3, 2.5))


def test_an_interrupted_up_leaves_what_ran_before_it(new_stack, only_redis):
    stack = new_stack()
    Stack(stack.directory).up()
    before = stack.processes()
    # On a slow machine Python itself is interrupted, before the command has begun.
    assert interrupted(stack, stack.command("up"), signal.SIGINT, after_s=1.0) in (130, -signal.SIGINT)
    assert stack.processes() == before
    states = {name: entry["state"] for name, entry in stack.status().items()}
    # Then, or somewhat later, the interruption comes before the broker was thought of.
    assert {"kafka": "stopped", **states} == {"kafka": "stopped", "redis": "running"}


def test_ctrl_c_again_and_again_stops_at_once_and_leaves_nothing(new_stack):
    stack = new_stack()
    with subprocess.Popen(stack.command("up"), stderr=subprocess.DEVNULL) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1.0)
        begin = time.monotonic()
        while process.poll() is None and time.monotonic() < begin + 20:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.01)
    assert process.returncode != 0
    assert time.monotonic() - begin < 5
    assert stack.processes() == []


@pytest.fixture
def signal_handlers_put_back():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


# A lock or a socket that was just opened when Ctrl-C came is closed by the garbage collector, which says so.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_ctrl_c_at_any_line_of_up_leaves_all_of_it_or_nothing(new_stack, only_redis, signal_handlers_put_back):
    stack = new_stack()
    lines = up_counting_lines(stack, interrupt_at=None)
    assert lines > 300
    every_line = range(1, lines)
    instants = random_source("lines").sample(every_line, k=rounds(quick=8, soak=len(every_line)))
    for instant in instants:
        Stack(stack.directory).reset(yes=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            up_counting_lines(stack, interrupt_at=instant)
        except KeyboardInterrupt:
            assert stack.processes() == [], f"line {instant} of {lines}"
        else:
            assert Stack(stack.directory).status()[0].state == "running", f"line {instant} of {lines}"
        Stack(stack.directory).up()
        Stack(stack.directory).down()
        assert stack.processes() == [], f"line {instant} of {lines}"


def up_counting_lines(stack: StackUnderTest, interrupt_at: int | None) -> int:
    """Runs `up` and presses Ctrl-C when its main thread comes to the so-manieth line of enrich.dev."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        nonlocal count
        if "/enrich/dev/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            count += 1
            if count == interrupt_at:
                signal.raise_signal(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        Stack(stack.directory).up(final=True)
    finally:
        sys.settrace(None)
    return count
