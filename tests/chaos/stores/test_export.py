"""An export that is killed or meets a full disk leaves nothing that looks like a snapshot and is none."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stores.errors import CorruptState
from stores.snapshots import newest_first, open_snapshot, remove_older
from stores.snapshots.snapshot import Snapshot
from tests.chaos.stores.exports import export, make_store
from tests.support.host.altered_rows import alter
from tests.support.processes import kill
from tests.support.seed import random_source, rounds
from tests.support.small_disk import assert_held


@pytest.fixture
def store(tmp_path):
    make_store(tmp_path / "store")
    return tmp_path / "store"


def visible(location: Path) -> list[Path]:
    folder = location / "p" / "left"
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.exists() else []


def test_kill_9_at_any_instant_leaves_whole_snapshots_only(store, tmp_path):
    random = random_source("kill an export")
    location = tmp_path / "snapshots"
    whole = sum(len(batch) for batch in export(store, location).versions())
    halves = 0
    for _ in range(rounds(6, 60)):
        program = [sys.executable, "-m", "tests.chaos.stores.exports", str(store), str(location)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged = [Path(process.stdout.readline().strip())]
            time.sleep(random.random() * 0.1)  # the instant of the kill
            kill(process.pid)
            acknowledged += [Path(line.strip()) for line in process.stdout.read().splitlines()]
        assert set(acknowledged) <= set(visible(location))
        for path in visible(location):
            assert sum(len(batch) for batch in open_snapshot(path).versions()) == whole
        halves += len([path for path in (location / "p" / "left").iterdir() if path.name.startswith(".")])
        remove_older(location / "p" / "left", 1)
    assert halves


def test_what_a_killed_export_left_is_removed_by_a_later_one_but_not_what_is_at_work(store, tmp_path):
    location = tmp_path / "snapshots"
    folder = export(store, location).path.parent
    left, at_work = folder / ".20261121T000000.000Z-abababab-0.1.aa", folder / ".20261121T000000.000Z-abababab-0.2.bb"
    for path in (left, at_work):
        path.mkdir()
        (path / "newest-00000.arrows").touch()
    for path in (left / "newest-00000.arrows", left):
        os.utime(path, (time.time() - 7_200,) * 2)
    export(store, location)
    assert not left.exists()
    assert at_work.exists()
    assert all(isinstance(found, Snapshot) for found in newest_first(folder))


def test_a_store_that_lost_a_row_without_a_word_is_not_exported(store, tmp_path):
    alter(store, "left", {b"mark": []}, secretly=False)
    with pytest.raises(CorruptState, match="should hold"):
        export(store, tmp_path / "snapshots")
    assert list((tmp_path / "snapshots" / "p" / "left").iterdir()) == []


def test_only_the_newest_are_kept(store, tmp_path):
    paths = [export(store, tmp_path).path for _ in range(4)]
    assert remove_older(paths[0].parent, 2) == [paths[1], paths[0]]
    assert visible(tmp_path) == sorted(paths[2:])
    assert remove_older(paths[0].parent, 2) == []


def test_a_full_disk_leaves_no_snapshot_and_the_ones_that_were_there(tmp_path):
    assert_held("tests.chaos.stores.export_disk_full", tmp_path)
