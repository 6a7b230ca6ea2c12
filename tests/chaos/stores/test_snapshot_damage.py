"""Whatever happens to a file of a snapshot: it is refused, and never taken for a smaller table."""

import os
import shutil
from pathlib import Path

import pytest

from stores.errors import ConfigError, CorruptState
from tests.support.seed import random_source, rounds
from tests.support.stores.snapshots import make_snapshot, read_all, sign


@pytest.fixture
def snapshot(tmp_path):
    return make_snapshot(tmp_path / "snapshots")


def flipped(path: Path, at: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def refused(path: Path) -> bool:
    try:
        read_all(path)
    except CorruptState as error:
        return str(path) in str(error)
    return False


def test_it_has_files_of_every_kind_and_is_good_untouched(snapshot):
    names = sorted(path.name for path in snapshot.path.iterdir())
    assert names == ["manifest.json", "newest-00000.arrows", "past-00000.arrows"]
    assert sum(len(batch) for batch in read_all(snapshot.path)) == 270


@pytest.mark.parametrize("name", ["manifest.json", "newest-00000.arrows", "past-00000.arrows"])
def test_a_flipped_bit_anywhere_is_refused(snapshot, name):
    random = random_source(f"flips/{name}")
    file = snapshot.path / name
    whole = file.read_bytes()
    for _ in range(rounds(60, 5_000)):
        at, bit = random.randrange(len(whole)), random.randrange(8)
        flipped(file, at, bit)
        assert refused(snapshot.path), (at, bit)
        file.write_bytes(whole)
    assert read_all(snapshot.path)


def test_every_flip_of_the_manifests_format_is_damage_and_not_a_newer_release(snapshot):
    file = snapshot.path / "manifest.json"
    whole = file.read_bytes()
    for bit in range(8):
        flipped(file, whole.index(b'"format":') + len(b'"format":'), bit)
        assert refused(snapshot.path), bit
        file.write_bytes(whole)


@pytest.mark.parametrize("name", ["manifest.json", "newest-00000.arrows", "past-00000.arrows"])
def test_a_file_that_is_cut_emptied_or_longer_is_refused(snapshot, name):
    file = snapshot.path / name
    whole = file.read_bytes()
    for content in (
        b"",
        whole[:1],
        whole[: len(whole) // 2],
        whole[:-1],
        whole + b"\0",
        whole + whole,
        whole[:-1] + b"\1",
    ):
        file.write_bytes(content)
        assert refused(snapshot.path), len(content)


def test_a_file_that_is_removed_renamed_replaced_by_another_or_by_a_link_or_a_pipe_is_refused(snapshot, tmp_path):
    file, other = snapshot.path / "newest-00000.arrows", snapshot.path / "past-00000.arrows"
    kept = tmp_path / "kept"
    file.rename(kept)
    assert refused(snapshot.path)
    shutil.copy(kept, snapshot.path / "newest-00001.arrows")
    assert refused(snapshot.path)
    shutil.copy(other, file)
    assert refused(snapshot.path)
    file.unlink()
    file.symlink_to(kept)
    assert refused(snapshot.path)
    file.unlink()
    os.mkfifo(file)
    assert refused(snapshot.path)
    file.unlink()
    file.mkdir()
    assert refused(snapshot.path)
    file.rmdir()
    kept.rename(file)
    assert read_all(snapshot.path)


def test_without_its_manifest_it_is_no_snapshot(snapshot):
    (snapshot.path / "manifest.json").rename(snapshot.path / "manifest")
    with pytest.raises(ConfigError, match="there is no snapshot"):
        read_all(snapshot.path)


def test_a_manifest_of_another_snapshot_is_refused(snapshot, tmp_path):
    another = make_snapshot(tmp_path / "others", rows=251)
    shutil.copy(another.path / "manifest.json", snapshot.path)
    assert refused(snapshot.path)


def test_damage_that_a_new_manifest_vouches_for_is_refused_or_harmless_and_never_ends_the_process(snapshot):
    """What the checksums cannot see: Arrow reads every byte of it, and may not be led astray."""
    random = random_source("signed flips")
    file = snapshot.path / "newest-00000.arrows"
    whole = file.read_bytes()
    seen = {True: 0, False: 0}
    for _ in range(rounds(150, 20_000)):
        for _ in range(random.choice([1, 1, 1, 4])):
            flipped(file, random.randrange(len(whole)), random.randrange(8))
        sign(snapshot, snapshot.manifest)
        seen[refused(snapshot.path)] += 1
        file.write_bytes(whole)
    assert seen[True] > 0
