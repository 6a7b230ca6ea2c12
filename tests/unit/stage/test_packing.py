"""What `enrich package` packs of the project, and what it says when the archive cannot be written."""

import errno
import os
import tomllib
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError, EnrichError, Fatal
from enrich.stage.spark import package as packing
from enrich.stage.spark.package import package

ROOT = Path(__file__).parents[3]


def test_the_archive_has_every_package_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    installed = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert sorted(packing._OURS) == sorted(name.rstrip("*") for name in installed)


@pytest.fixture
def target(tmp_path, monkeypatch):
    # Quickly packed, as there is little to pack.
    monkeypatch.setattr(packing, "_needed", list)
    monkeypatch.setattr(packing, "_OURS", ("stores",))
    yield tmp_path / "environment.tar.gz"
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_and_leaves_no_part(target, number):
    def full(done, whole):
        raise OSError(number, os.strerror(number))

    with pytest.raises(Fatal, match="the disk is full") as caught:
        package(target, report=full)
    assert caught.value.where == str(target.parent)
    assert "--output" in str(caught.value.next_step)


def test_a_folder_that_may_not_be_written_is_said(target, monkeypatch):
    def refused(prefix, dir):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), f"{dir}/{prefix}x")

    monkeypatch.setattr("tempfile.mkstemp", refused)
    with pytest.raises(ConfigError, match="cannot be written: Permission denied") as caught:
        package(target)
    assert "--output" in str(caught.value.next_step)


def test_a_target_that_is_a_folder_is_said(target):
    target.mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        package(target)


def test_a_file_that_cannot_be_read_is_no_fault_of_the_target(target, monkeypatch, tmp_path):
    gone = tmp_path / "elsewhere" / "gone.py"
    gone.parent.mkdir()
    gone.touch()
    monkeypatch.setattr(packing, "_our_files", lambda: [(gone, "stores/gone.py")])
    monkeypatch.setattr(packing, "_add_environment", lambda *_: gone.unlink())
    with pytest.raises(EnrichError, match="cannot be read: No such file") as caught:
        package(target)
    assert caught.value.where == str(gone)
