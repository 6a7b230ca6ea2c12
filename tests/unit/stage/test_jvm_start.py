"""A stage's JVM gets the archive of classes if there is one, and a Java of its own another archive."""

import sys

import pytest

from enrich.stage.spark import jvm_start


@pytest.fixture
def places(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return lambda: [*jvm_start._places()]


def test_there_is_no_archive_before_one_is_made(places):
    assert "SharedArchiveFile" not in jvm_start.start_options()


def test_an_archive_beside_the_packages_comes_before_one_in_the_cache(places):
    beside, cached = places()
    for archive in (cached, beside):
        archive.parent.mkdir(parents=True)
        archive.touch()
        assert f"-XX:SharedArchiveFile={archive}" in jvm_start.start_options()


def test_another_java_has_another_archive(places, tmp_path):
    before = places()
    java = tmp_path / "bin" / "java"
    java.unlink()
    (tmp_path / "other").touch(0o755)
    java.symlink_to(tmp_path / "other")
    assert not {*before} & {*places()}


def test_an_archive_that_is_there_is_not_made_again(places):
    _, cached = places()
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert jvm_start.make_archive() == cached
