"""The life of an agent's process."""

from typing import Any

import pytest

from enrich.agent import process
from enrich.agent.lock import StoreLock
from enrich.agent.place import Place
from enrich.base.errors import CorruptState, Fenced


def test_an_agent_that_lost_its_lock_does_not_move_its_successors_store(tmp_path, monkeypatch):
    unused: Any = None
    place = Place(tmp_path)
    lock = StoreLock.try_take(tmp_path / "lock")
    assert lock is not None

    def damaged(*_):
        if place.damaged.exists() or not (tmp_path / "lock").read_text():
            return  # the second time
        # The directory was deleted and made again by another agent: that is how the old one came to see damage.
        (tmp_path / "lock").unlink()
        (tmp_path / "lock").touch()
        place.rows.mkdir()
        (place.rows / "of the successor").touch()
        raise CorruptState("the store was deleted")

    monkeypatch.setattr(process, "_serve", damaged)
    with pytest.raises(Fenced):
        process._run(unused, place, lock, unused, linger_s=1)
    assert [path.name for path in place.rows.iterdir()] == ["of the successor"]
    lock.release()
