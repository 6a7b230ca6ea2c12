import stat
import subprocess
import sys

import pytest

from enrich.base.errors import Fenced
from enrich.host.ipc.lock import StoreLock

TAKE = """
import sys
from pathlib import Path
from enrich.host.ipc.lock import StoreLock
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


@pytest.mark.parametrize("before", [None, 0o644, 0o666])
def test_no_other_user_can_open_the_lock_and_so_hold_it(tmp_path, before):
    path = tmp_path / "lock"
    if before is not None:
        path.touch()
        path.chmod(before)
    lock = StoreLock.try_take(path)
    assert lock is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lock.release()
