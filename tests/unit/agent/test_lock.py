import subprocess
import sys

import pytest

from enrich.agent.lock import StoreLock
from enrich.errors import Fenced

TAKE = """
import sys
from pathlib import Path
from enrich.agent.lock import StoreLock
lock = StoreLock.try_take(Path(sys.argv[1]))
print("none" if lock is None else "taken", flush=True)
sys.stdin.read()
"""


def other_process(path):
    started = subprocess.Popen(
        [sys.executable, "-c", TAKE, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    return started, started.stdout.readline().strip()


def end(process):
    process.communicate("")


def test_only_one_process_holds_the_lock_and_it_names_itself(tmp_path):
    path = tmp_path / "lock"
    first, outcome = other_process(path)
    assert outcome == "taken"
    assert path.read_text() == f"{first.pid}\n"
    assert StoreLock.try_take(path) is None
    second, outcome = other_process(path)
    assert outcome == "none"
    end(first)
    end(second)
    assert StoreLock.try_take(path) is not None


def test_a_killed_holder_leaves_the_lock_free(tmp_path):
    first, _ = other_process(tmp_path / "lock")
    first.kill()
    end(first)
    assert StoreLock.try_take(tmp_path / "lock") is not None


def test_a_holder_whose_file_is_gone_or_another_is_fenced(tmp_path):
    path = tmp_path / "lock"
    lock = StoreLock.try_take(path)
    assert lock is not None
    lock.require_held()
    path.unlink()
    with pytest.raises(Fenced):
        lock.require_held()
    another = StoreLock.try_take(path)
    assert another is not None
    another.require_held()
    with pytest.raises(Fenced):
        lock.require_held()
