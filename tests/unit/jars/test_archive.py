"""Unpacking of archives: as a whole or not at all, and provably whole later."""

import tarfile

import pytest

from enrich.jars import archive


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "lib").mkdir(parents=True)
    (folder / "app.jar").write_bytes(b"app")
    (folder / "lib" / "one.jar").write_bytes(b"one")
    path = tmp_path / "source.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in ("app.jar", "lib"):
            tar.add(folder / name, name)
    return path


@pytest.fixture
def unpacked(source, tmp_path):
    target = tmp_path / "cache" / "target"
    archive.unpack(source, tmp_path / "scratch", target)
    return target


def test_what_was_unpacked_is_whole(unpacked):
    assert (unpacked / "lib" / "one.jar").read_bytes() == b"one"
    assert archive.is_whole(unpacked)


def test_a_changed_byte_is_noticed(unpacked):
    (unpacked / "lib" / "one.jar").write_bytes(b"onf")
    assert not archive.is_whole(unpacked)


def test_a_missing_file_is_noticed(unpacked):
    (unpacked / "app.jar").unlink()
    assert not archive.is_whole(unpacked)


def test_a_folder_without_its_list_is_not_whole(unpacked, tmp_path):
    (unpacked / "SHA256SUMS").unlink()
    assert not archive.is_whole(unpacked)
    assert not archive.is_whole(tmp_path / "nothing")


def test_unpacking_again_replaces_what_was_damaged(source, unpacked, tmp_path):
    (unpacked / "app.jar").write_bytes(b"xxx")
    (unpacked / "stranger").touch()
    archive.unpack(source, tmp_path / "again", unpacked)
    assert archive.is_whole(unpacked)
    assert not (unpacked / "stranger").exists()


def test_a_path_that_leads_outside_is_refused_by_every_python_that_can(tmp_path):
    if not hasattr(tarfile, "data_filter"):
        return  # before 3.11.4; no skip, because nothing is missing that could be installed
    path = tmp_path / "evil.tar.gz"
    (tmp_path / "file").write_bytes(b"x")
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tmp_path / "file", "../outside")
    with pytest.raises(tarfile.OutsideDestinationError):
        archive.unpack(path, tmp_path / "scratch", tmp_path / "target")
    assert not (tmp_path / "target").exists()
