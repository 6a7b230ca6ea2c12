"""Which Java is taken, and what is said when none will do."""

import pytest

from enrich.base.errors import ConfigError
from enrich.dev.servers import java


def java_home(path, version=None):
    (path / "bin").mkdir(parents=True)
    program = path / "bin" / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    program.chmod(0o755)
    if version is not None:
        (path / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return path


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.1", "25-ea", "100.1"])
def test_17_and_newer_will_do(tmp_path, monkeypatch, version):
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "jdk", version)))
    assert java.find_java() == tmp_path / "jdk" / "bin" / "java"


@pytest.mark.parametrize(("version", "told"), [("1.8.0_392", "8"), ("11.0.2", "11"), ("16", "16")])
def test_an_older_one_is_refused_in_a_line_that_says_what_is_needed(tmp_path, monkeypatch, version, told):
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "jdk", version)))
    with pytest.raises(ConfigError, match=f"Java {told} is too old: Java 17 or newer is needed"):
        java.find_java()


def test_java_home_comes_before_path(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "home", "21")))
    monkeypatch.setenv("PATH", str(java_home(tmp_path / "path", "17") / "bin"))
    assert java.find_java() == tmp_path / "home" / "bin" / "java"
    monkeypatch.delenv("JAVA_HOME")
    assert java.find_java() == tmp_path / "path" / "bin" / "java"


def test_a_java_that_has_no_release_file_is_asked_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "jdk")))
    with pytest.raises(ConfigError, match="Java 8 is too old"):
        java.find_java()


def test_no_java_at_all_is_said_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="Java 17 or newer is needed") as caught:
        java.find_java()
    assert "install" in (caught.value.next_step or "")


def test_a_java_home_without_java_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="JAVA_HOME") as caught:
        java.find_java()
    assert caught.value.where == str(tmp_path)
