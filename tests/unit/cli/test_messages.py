"""What our messages tell people to do can be done: the commands, options and keys that they name are there."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError
from enrich.config import load
from enrich.config.shape import every_key
from sync_service.sources.command import asked
from tests.support.commands import enrich
from tests.support.typed import every_option, typed_problem

ROOT = Path(__file__).parents[3]
ROOMS = ("edge_service", "enrich", "jobs", "observe_service", "stores", "sync_service")
_OTHERS = {"--lock", "--operation", "--packages", "--resource-pattern-type"}
"""Of `python -m enrich.jars`, kafka-acls and spark-submit."""
_FILES = {"agent.log", "agent.sock"}
_KEYS = {re.sub(r"<name>|\[\]", "", key) for key, _ in every_key()}
_PARTS = {".".join(key.split(".")[:depth]) for key in _KEYS for depth in range(1, key.count(".") + 2)}
_KNOWN = _PARTS | _FILES
_SECTIONS = "|".join(sorted({key.partition(".")[0] for key in _KEYS}))


@cache
def texts(room: str) -> list[str]:
    """All that may be said: no docstrings, and `X` in place of what is filled in."""
    return [text for path in sorted((ROOT / room).rglob("*.py")) for text in _texts(ast.parse(path.read_text()))]


def _texts(tree: ast.AST) -> Iterator[str]:
    quiet: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            quiet.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            quiet |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in quiet:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def problems(text: str) -> Iterator[str]:
    for command in re.findall(r"\benrich ([a-z]+\b[^`;:,()\n]*)", text):
        words = _split(re.sub(r"(?<=[a-z])X\b", "", command))
        if typed_problem(words[:1]) is None and (problem := typed_problem(words)) is not None:
            yield f"enrich {command}: {problem}"
    if " " not in text:
        # Where something is wrong. Settings of clients begin with `kafka`, too.
        if (
            re.fullmatch(rf"(?!kafka)(?:{_SECTIONS})(?:\.[a-z_\dX]+)*\.[a-z_\d]+", text)
            and not {text, _unnamed(text)} & _KNOWN
        ):
            yield f"there is no key {text}"
        return
    if "kafka-acls" not in text:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
        yield from (f"no command has {option}: {text}" for option in sorted(named - every_option() - _OTHERS))
    for key in re.findall(rf"(?<![\w./-])((?:{_SECTIONS})(?:\.(?:<name>|[a-z_\d]+))+)", text):
        if key not in _FILES and key.replace("<name>", "") not in _PARTS:
            yield f"there is no key {key}: {text}"


def _unnamed(key: str) -> str:
    return re.sub(r"(?<=\.)X(?=\.|$)", "", key)


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an apostrophe of the sentence
        return command.split()


def test_who_names_what_the_file_does_not_have_is_told_what_it_has_though_no_program_runs(tmp_path: Path) -> None:
    file = tmp_path / "plays.yaml"
    file.write_text(
        "name: plays\nkafka: {bootstrap_servers: 'h:1'}\n"
        "expel: {acme: {topic: plays, to: {http: {url: 'https://h'}}}}\n"
        "sync: {sources: {users: {topic: users, format: json, from: {file: {path: /users.csv, key: [id]}}}}}\n"
    )
    told = enrich("expel", "resume", "nobody", "-c", file)
    assert (told.returncode, "choose from acme" in told.stderr) == (2, True), told
    with pytest.raises(ConfigError, match="choose from users"):
        asked(load(file), "nobody")


@pytest.mark.parametrize("room", ROOMS)
def test_messages_name_commands_options_and_keys_that_there_are(room: str) -> None:
    assert [problem for text in texts(room) for problem in problems(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "run `enrich table fetch X`",
        "repair it: enrich sync reconcile X --mend -c FILE",
        "add --sure",
        "raise topics.<name>.largest_message and apply it",
        "correct kafka.registry.address of it",
        "ingest.listen",
    ],
)
def test_what_there_is_not_is_found(text: str) -> None:
    assert len([*problems(text)]) >= 1
