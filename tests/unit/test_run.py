"""What the test run itself promises: nothing is skipped quietly, a seed repeats everything."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1].parent

PYTEST = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-q", "-s"]

INTERRUPTS = """
import signal, subprocess, sys
def test_it():
    ended = subprocess.run([sys.executable, "-c", "import signal; signal.raise_signal(signal.SIGINT)"])
    assert ended.returncode == -signal.SIGINT
"""
NEEDS_THE_STACK = "def test_it(stack): pass"
SKIPS = "import pytest\n@pytest.mark.skip\ndef test_it(): pass"
DRAWS = """
from hypothesis import given, strategies as st
from tests.support.seed import random_source
@given(st.integers(0, 10**9))
def test_it(number): print("drew", number)
def test_that(): print("drew", random_source("x").random())
"""


@pytest.fixture
def run(tmp_path):
    def run_tests(text, *arguments, **environment):
        (tmp_path / "test_it.py").write_text(text)
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "tests.conftest",
                "--rootdir",
                tmp_path,
                tmp_path,
                "-q",
                "-s",
                *arguments,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run_tests


@pytest.mark.parametrize(
    ("text", "environment"),
    [(NEEDS_THE_STACK, {"JAVA_HOME": "/nowhere"}), (SKIPS, {})],
    ids=["server missing", "skipped"],
)
def test_what_is_skipped_fails_unless_that_is_allowed(run, text, environment):
    assert run(text, **environment).returncode == 1
    allowed = run(text, "--allow-missing", **environment)
    assert allowed.returncode == 0
    assert "1 skipped" in allowed.stdout


def test_a_run_that_a_script_started_in_the_background_sends_ctrl_c_all_the_same(run):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = run(INTERRUPTS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.returncode == 0, done.stdout


def test_a_missing_server_is_named_with_what_to_install(run):
    done = run(NEEDS_THE_STACK, JAVA_HOME="/nowhere")
    assert re.search(r"the embedded stack is missing: .*JAVA_HOME", done.stdout)


def test_a_seed_is_printed_and_repeats_all_random_choices(run):
    def drawn(**environment):
        return re.findall(r"drew (.*)", run(DRAWS, **environment).stdout)

    first = run(DRAWS, ENRICH_TEST_SEED="")
    (seed,) = re.findall(r"^seed: (\d+)", first.stdout, re.MULTILINE)
    assert drawn(ENRICH_TEST_SEED=seed) == re.findall(r"drew (.*)", first.stdout)
    assert drawn(ENRICH_TEST_SEED=seed) != drawn(ENRICH_TEST_SEED=seed + "1")
