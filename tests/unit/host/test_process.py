"""The life of an agent's process."""

from typing import Any

import pytest

from enrich.base.errors import CorruptState, Fenced
from enrich.host.ipc.lock import StoreLock
from enrich.host.ipc.store_paths import StorePaths
from enrich.host.process import program as process


def test_an_agent_that_lost_its_lock_does_not_move_its_successors_store(tmp_path, monkeypatch):
    unused: Any = None
    paths = StorePaths(tmp_path)
    lock = StoreLock.try_take(tmp_path / "lock")
    assert lock is not None

    def damaged(*_):
        if paths.damaged.exists() or not (tmp_path / "lock").read_text():
            return  # the second time
        # The directory was deleted and recreated by another agent: that is how the old one came to see damage.
        (tmp_path / "lock").unlink()
        (tmp_path / "lock").touch()
        paths.rows.mkdir()
        (paths.rows / "of the successor").touch()
        raise CorruptState("the store was deleted")

    monkeypatch.setattr(process, "_serve", damaged)
    with pytest.raises(Fenced):
        process._run(unused, paths, lock, unused, linger_s=1)
    assert [path.name for path in paths.rows.iterdir()] == ["of the successor"]
    lock.release()
