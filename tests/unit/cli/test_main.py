"""The command as its users type it: in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ENRICH = Path(sys.executable).parent / "enrich"


def enrich(*arguments, **options):
    return subprocess.run([ENRICH, *arguments], capture_output=True, text=True, check=False, **options)


def test_help_names_every_group_and_leaves_with_zero():
    done = enrich("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("dev", "demo", "config"))


def test_no_command_shows_the_help_and_is_a_usage_error():
    done = enrich()
    assert done.returncode == 2
    assert "Usage" in done.stdout + done.stderr


def test_the_version_is_that_of_the_package():
    assert enrich("--version").stdout == f"enrich {version('enrich')}\n"


def test_the_module_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "enrich", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == enrich("--version").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["dve"],
        ["--nope"],
        ["dev", "nope"],
        ["--log-format", "xml", "demo"],
        ["--log-level", "loud", "demo"],
        ["config", "check"],
    ],
)
def test_a_wrong_word_is_a_usage_error_without_a_traceback(arguments):
    done = enrich(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["config", "schema"], ["config", "check", "-c", "examples/plays.yaml"]])
def test_output_that_nobody_reads_is_no_difference(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run([ENRICH, *arguments], stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_misspelt_command_is_answered_with_the_nearest():
    assert "dev" in enrich("dve").stderr


def test_errors_are_json_lines_where_logs_are():
    done = enrich("--log-format", "json", "config", "check", "-c", "nowhere.yaml")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["level"] == "error"


def test_a_shell_gets_its_completion_and_completes_with_it():
    done = subprocess.run(
        ["bash", "-c", f"{ENRICH} --show-completion; exit $?"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "complete" in done.stdout
    asked = {**os.environ, "_ENRICH_COMPLETE": "complete_bash", "COMP_WORDS": "enrich de", "COMP_CWORD": "1"}
    assert {"dev", "demo"} <= set(enrich(env=asked).stdout.split())


def test_a_bug_says_that_it_is_one_and_is_not_taken_for_a_difference():
    code = "import enrich.cli.main as m; m.app = lambda: 1 / 0; m.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert "this is a bug in enrich" in done.stderr
    assert "ZeroDivisionError" in done.stderr


def test_nothing_heavy_is_imported_for_the_help():
    code = "import sys, enrich.cli.main; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyarrow", "pydantic", "confluent_kafka", "pyspark", "numpy"} & set(done.stdout.split())
