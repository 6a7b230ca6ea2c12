"""Files that are no configuration, by mistake or by malice: one clear problem, soon, and never a traceback."""

import os
import time
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError
from enrich.config import load
from tests.unit.config.helpers import HEAD, lines_of

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)

HOSTILE = [
    ("a python object", "name: !!python/object:os.system [ls]", "the tag tag:yaml.org,2002:python/object:os"),
    ("a tag of its own", "name: !secret x", "the tag !secret is refused: values are plain text, numbers, lists and"),
    ("binary", "name: !!binary aGVsbG8=", "the tag tag:yaml.org,2002:binary is refused: values are plain text"),
    ("an alias bomb", BOMB, "aliases multiply the file beyond any sensible size"),
    ("merges of merges", "a: &a {b: 1}\n<<: [" + "*a," * 30_000 + "]", "more than 20000 values"),
    ("an alias of itself", "a: &a [*a]", "*a refers to no complete anchor above it"),
    ("an alias of nothing", "a: *b", "*b refers to no complete anchor above it"),
    ("brackets", "a: " + "[" * 100_000, "nested more than 50 deep"),
    ("braces", "{" * 100_000, "nested more than 50 deep"),
    ("dashes", "- " * 100_000, "nested more than 50 deep"),
    ("indentation", "".join(f"{' ' * n}a:\n" for n in range(400)), "nested more than 50 deep"),
    ("too many values", "a: [" + "1," * 100_000, "more than 20000 values"),
    ("a long word", HEAD + "memory: {budget: " + "k" * 200_000 + "}", "expected a size such as"),
    ("a long word of passwords", HEAD + "memory: {budget: " + "password" * 25_000 + "}", "expected a size such as"),
    ("many addresses", HEAD + "memory: {budget: '@" + "x://" * 50_000 + "'}", "expected a size such as"),
    ("many addresses of one", HEAD + "memory: {budget: '" + "x://y:" * 30_000 + "@'}", "expected a size such as"),
    ("brackets where none may be", "a: b: ${" + "[{" * 100_000, "mapping values are not allowed here"),
    ("two documents", "name: a\n---\nname: b\n", "a second document starts here: one file holds one pipeline"),
    ("half a surrogate", 'name: "\\uD800"', "half a surrogate pair is not a character"),
    ("beyond Unicode", 'name: "\\UFFFFFFFF"', "this is not YAML: "),
    ("a zero byte", "name: a\nkafka: \0", "the character U+0000 is refused"),
    ("an invisible line break", "name: a\u2028kafka: b", "the character U+2028 is refused"),
    ("a tab for indentation", "kafka:\n\tclient: {}", "found character '\\t' that cannot start any token"),
    ("a list at the top", "- name: plays", "expected a mapping at the top, got a list"),
    ("text", "plays", "expected a mapping at the top, got plays"),
    ("an empty file", "", "the file is empty"),
    ("remarks only", "# name: plays\n", "the file is empty"),
    ("a key that is a list", HEAD + "? [a]\n: b", "a key must be plain text"),
    ("nothing to merge", HEAD + "<<: 5", "expected a mapping, or a list of them, to merge"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), [pytest.param(*rest, id=name) for name, *rest in HOSTILE])
def test_hostile_yaml_is_one_clear_problem_and_soon(text: str, message: str) -> None:
    started = time.perf_counter()
    found = lines_of(text)
    assert len(found) == 1
    assert message in found[0]
    assert time.perf_counter() - started < 10


def test_the_last_line_break_is_the_problems_place() -> None:
    assert lines_of("name: a\nkafka: \0") == ["2:8: the character U+0000 is refused"]


def _why_unreadable(path: str | Path) -> str:
    with pytest.raises(ConfigError) as raised:
        load(path, {})
    return str(raised.value)


def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    missing, pipe, huge = tmp_path / "missing.yaml", tmp_path / "pipe", tmp_path / "huge.yaml"
    os.mkfifo(pipe)
    huge.write_text("#" * 2**18 + "\n")
    for path, why in (
        (missing, "No such file or directory"),
        (tmp_path, "it is a directory"),
        (pipe, "it is not a file"),
        (Path("/dev/zero"), "it is not a file"),
        (huge, "it is larger than 256 KiB"),
        ("a\0b", "a path has no zero byte"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        assert _why_unreadable(path) == f"cannot read the configuration: {why} ({path})"


def test_a_file_without_rights_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "secret.yaml"
    path.write_text(HEAD)
    monkeypatch.setattr(Path, "open", refuse)  # root, as whom tests may run, is refused nothing
    assert _why_unreadable(path) == f"cannot read the configuration: Permission denied ({path})"


def test_a_file_that_is_not_utf_8_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"name: plays\n# caf\xe9\n")
    assert _why_unreadable(path) == f"{path}:2: not UTF-8 text; save the file as UTF-8"


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + HEAD.encode())
    assert load(path, {}).name == "plays"
