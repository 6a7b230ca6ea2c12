"""What `make setup` says when the machine lacks something: one clear line, exit code 2, nothing done."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ["sh", "dirname", "cat", "cksum", "sed", "head", "rm"]


@pytest.fixture
def checkout(tmp_path):
    """A checkout with just what setup looks at, and a machine with just what setup needs before Python."""
    (tmp_path / "tools").mkdir()
    for name in ["tools/setup.sh", "requirements-dev.lock", "pyproject.toml"]:
        shutil.copy(ROOT / name, tmp_path / name)
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        (programs / tool).symlink_to(shutil.which(tool))
    return tmp_path


def put_program(checkout, name, script):
    program = checkout / "bin" / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def setup(checkout, **environment):
    return subprocess.run(
        ["sh", "tools/setup.sh"],
        cwd=checkout,
        env={"PATH": str(checkout / "bin"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def java(version):
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


def says_one_line(done, text):
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert text in line
    assert "install" in line


def test_no_java_is_one_line_that_says_what_to_install(checkout):
    says_one_line(setup(checkout), "no Java found")


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "16"])
def test_an_old_java_is_one_line_that_says_what_to_install(checkout, version):
    put_program(checkout, "java", java(version))
    says_one_line(setup(checkout), "is too old")


def test_a_java_home_without_java_is_one_line(checkout):
    put_program(checkout, "java", java("17.0.15"))
    says_one_line(setup(checkout, JAVA_HOME="/nowhere"), "no Java found")


def test_no_python_and_only_old_ones_are_one_line(checkout):
    put_program(checkout, "java", java("17.0.15"))
    says_one_line(setup(checkout), "no Python >= 3.11 found")
    put_program(checkout, "python3", "exit 1")  # what the version check of an old one answers
    says_one_line(setup(checkout), "no Python >= 3.11 found")


def test_a_python_that_cannot_make_an_environment_is_named_with_what_to_install(checkout):
    put_program(checkout, "java", java("21"))
    put_program(checkout, "python3", 'case "$1" in -c) exit 0;; --version) echo Python 3.11.0;; *) exit 1;; esac')
    done = setup(checkout)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("install its venv module (Debian: python3-venv)")
    assert not (checkout / ".venv" / ".complete").exists()


def test_make_passes_the_python_that_one_chooses_to_setup(checkout):
    shutil.copy(ROOT / "Makefile", checkout)
    put_program(checkout, "java", java("21"))
    put_program(checkout, "mine", 'case "$1" in -c) exit 0;; --version) echo Python 3.11.0;; *) exit 1;; esac')
    done = subprocess.run(
        [str(shutil.which("make")), "setup"],
        cwd=checkout,
        env={"PATH": str(checkout / "bin"), "PYTHON": "mine"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "setup: mine cannot make a virtual environment" in done.stderr
