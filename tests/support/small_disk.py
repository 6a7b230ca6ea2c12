"""A program of a test that has a small disk of its own, and fills it. Nobody else sees that disk, and it is gone with
the last process inside."""

import errno
import os
import subprocess
import sys
from pathlib import Path

UNSHARE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
"""What a command begins with that may mount one."""


def run_apart(module: str, *arguments: str | Path, timeout_s: float = 120) -> "subprocess.CompletedProcess[str]":
    """The module as a program that may mount a disk."""
    program = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run([*UNSHARE, *program], capture_output=True, text=True, timeout=timeout_s, check=False)


def assert_held(module: str, *arguments: str | Path) -> None:
    """Of a program that asserts by itself, and ends with "held"."""
    done = run_apart(module, *arguments)
    assert (done.returncode, done.stdout) == (0, "held"), done.stderr


def mount(directory: Path, size: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)], check=True)


def fill(ballast: Path) -> None:
    """To the last byte."""
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
