"""Exports into one folder, of several hosts whose clocks differ."""

import os
import time
from pathlib import Path

import pytest

from stores.snapshots.folder import hidden_until_whole

HOUR_S = 3_600


def test_what_another_host_writes_now_stays_though_this_one_s_clock_is_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was abandoned goes, by the clock of the file system."""
    left = tmp_path / ".left"
    left.mkdir()
    os.utime(left, (time.time() - 2 * HOUR_S,) * 2)
    ahead_s = time.time() + 2 * HOUR_S
    with hidden_until_whole(tmp_path, "theirs") as theirs:
        (theirs / "rows").write_text("theirs")
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: ahead_s)
            with hidden_until_whole(tmp_path, "ours") as ours:
                (ours / "rows").write_text("ours")
    assert {path.name for path in tmp_path.iterdir()} == {"theirs", "ours"}
    assert (tmp_path / "theirs" / "rows").read_text() == "theirs"
