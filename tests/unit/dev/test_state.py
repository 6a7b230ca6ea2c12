"""The state file of a stack, and how a stack's directory is told from others."""

import json

import pytest

from enrich.base.errors import ConfigError, CorruptState
from enrich.dev import removal
from enrich.dev.state import STATE_FILE, ServerState, StackFolder, State

STATE = State({"redis": ServerState({"redis": 20001}, "token", settled=True, expected=True)})


@pytest.fixture
def folder(tmp_path):
    return StackFolder(tmp_path / "stack")


@pytest.fixture
def stack(folder):
    folder.path.mkdir()
    folder.save(STATE)
    return folder


def test_what_is_saved_is_loaded_again(stack):
    assert stack.load() == STATE


def test_only_its_owner_reads_the_state_because_of_the_password(stack):
    assert (stack.path / STATE_FILE).stat().st_mode & 0o077 == 0


def test_saving_leaves_no_other_file(stack):
    assert [path.name for path in stack.path.iterdir()] == [STATE_FILE]


def test_a_save_that_fails_keeps_the_old_state(stack, monkeypatch):
    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json, "dump", full_disk)
    with pytest.raises(OSError, match="No space"):
        stack.save(State())
    monkeypatch.undo()
    assert stack.load() == STATE
    assert [path.name for path in stack.path.iterdir()] == [STATE_FILE]


@pytest.mark.parametrize("version", [0, 2, 999, "1", None])
def test_another_format_is_refused_with_the_way_out(stack, version):
    (stack.path / STATE_FILE).write_text(json.dumps({"format": version, "anything": "else"}))
    with pytest.raises(ConfigError, match="another version") as caught:
        stack.load()
    assert f"enrich dev reset --yes --dir {stack.path}" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe garbage",
        b"{}",
        b'{"format": 1}',
        b'{"format": 1, "servers": []}',
        b'{"format": 1, "servers": {"redis": {}}}',
        b'{"format": 1, "servers": {"redis": {"ports": {"a": "x"}, "token": "t", "settled": true, "expected": true}}}',
        b'{"format": 1, "servers": {"redis": {"ports": [], "token": 1, "settled": true, "expected": true}}}',
    ],
)
def test_a_state_that_is_garbage_is_an_error_with_the_way_out(stack, content):
    (stack.path / STATE_FILE).write_bytes(content)
    with pytest.raises(CorruptState) as caught:
        stack.load()
    assert "enrich dev reset --yes" in str(caught.value)


def test_nothing_an_empty_directory_and_a_killed_first_start_are_new_stacks(folder):
    assert folder.load() == State()
    folder.path.mkdir()
    assert folder.load() == State()
    (folder.path / "lock").touch()
    (folder.path / f".{STATE_FILE}.half").touch()
    assert folder.load() == State()


def test_a_directory_with_other_files_is_no_stack(folder):
    folder.path.mkdir()
    (folder.path / "thesis.txt").touch()
    with pytest.raises(ConfigError, match="no stack"):
        folder.load()


@pytest.mark.parametrize("names", [["thesis.txt"], ["kafka", "redis", "logs", "run"], ["lock", "state.json"]])
def test_a_directory_that_is_no_stack_is_never_deleted(folder, names):
    folder.path.mkdir()
    for name in names:
        (folder.path / name).mkdir()
    with pytest.raises(ConfigError, match="no stack"):
        removal.check_deletable(folder, {"kafka", "redis"})


def test_a_stack_that_holds_other_files_too_is_not_deleted(stack):
    (stack.path / "thesis.txt").touch()
    with pytest.raises(ConfigError, match=r"also holds thesis\.txt"):
        removal.check_deletable(stack, {"kafka", "redis"})


def test_a_stack_is_deleted_as_a_whole_also_with_servers_of_another_version(stack):
    for name in ("kafka", "run", "logs", "mysql"):
        (stack.path / name).mkdir()
    (stack.path / "run" / "mysql.pid").touch()
    (stack.path / "kafka" / "data").write_text("x")
    (stack.path / "lock").touch()
    removal.check_deletable(stack, {"kafka", "redis"})
    removal.delete(stack)
    assert not stack.path.exists()


def test_what_a_symbolic_link_points_at_is_not_deleted(stack, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "thesis.txt").touch()
    (stack.path / "logs").symlink_to(tmp_path / "elsewhere")
    removal.delete(stack)
    assert (tmp_path / "elsewhere" / "thesis.txt").exists()
