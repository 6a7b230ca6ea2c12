"""`enrich config`: screens for people, lines for machines, exit codes; and nothing heavy before it is needed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from enrich.cli.config import app
from tests.unit.config.helpers import HEAD

BAD = HEAD + "memory: {budgt: 1GiB}\ntables: {a: {topic: '[x]', format: string}}\n"
GOOD = HEAD + "state_dir: /data\ntables: {a: {loader: {redis: 'redis://u:pw@h'}, format: string}}\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text(BAD)
    Path("good.yaml").write_text(GOOD)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("files")
def test_check_says_that_a_file_is_good() -> None:
    result = run("check", "-c", "good.yaml")
    assert (result.exit_code, result.stdout) == (0, "good: good.yaml, pipeline plays, 1 table, 0 stages\n")
    result = run("check", "-c", "good.yaml", "--json")
    assert result.exit_code == 0
    assert objects(result) == [{"ok": True, "file": "good.yaml", "pipeline": "plays", "tables": 1, "stages": 0}]


@pytest.mark.usefixtures("files")
def test_check_tells_people_every_problem_on_a_line_and_exits_2() -> None:
    result = run("check", "--config", "bad.yaml")
    assert result.exit_code == 2
    assert result.stdout == (
        "bad.yaml:3:10: memory.budgt: unknown key; did you mean budget?\n"
        "bad.yaml:4:21: tables.a.topic: expected a topic name of at most 249 letters, digits, . _ and -, got [x]\n"
        "2 problems\n"
    )


@pytest.mark.usefixtures("files")
def test_check_tells_machines_one_object_a_problem_and_exits_2() -> None:
    result = run("check", "-c", "bad.yaml", "--json")
    assert result.exit_code == 2
    assert objects(result) == [
        {
            "file": "bad.yaml",
            "line": 3,
            "column": 10,
            "key": "memory.budgt",
            "message": "unknown key; did you mean budget?",
        },
        {
            "file": "bad.yaml",
            "line": 4,
            "column": 21,
            "key": "tables.a.topic",
            "message": "expected a topic name of at most 249 letters, digits, . _ and -, got [x]",
        },
    ]
    result = run("check", "-c", "missing.yaml", "--json")
    assert result.exit_code == 2
    assert objects(result) == [
        {
            "file": "missing.yaml",
            "line": None,
            "column": None,
            "key": "",
            "message": "cannot read the configuration: No such file or directory",
        }
    ]


@pytest.mark.usefixtures("files")
def test_show_fills_in_defaults_and_masks_passwords() -> None:
    result = run("show", "-c", "good.yaml")
    assert result.exit_code == 0
    assert result.stdout == (
        "name: plays\nrelease: 0\nkafka:\n  bootstrap_servers: localhost:9092\n  client: {}\nstate_dir: /data\n"
        "memory:\n  budget: 2GiB\n"
        "agent:\n  linger: 15m\n  metrics_address: 127.0.0.1\n"
        "tables:\n  a:\n    format: string\n    loader:\n"
        "      redis: redis://u:***@h\n    columns: value string\n    key: exact\n"
        "    refresh: 2m\n    expire: 30d\nstages: {}\ningest: {}\nexpel: {}\n"
        "pages:\n  ingest: 127.0.0.1:9401\n  expel: 127.0.0.1:9402\n  retrier: 127.0.0.1:9403\ntopics: {}\n"
    )
    (shown,) = objects(run("show", "-c", "good.yaml", "--json"))
    assert shown["tables"]["a"]["loader"] == {"redis": "redis://u:***@h"}


def test_schema_is_a_json_schema() -> None:
    result = run("schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_program_exits_2_without_a_traceback(files: Path) -> None:
    for command, told in (("show", "error: bad.yaml has 2 problems"), ("check", "2 problems")):
        arguments = [sys.executable, "-m", "enrich", "config", command, "-c", "bad.yaml"]
        result = subprocess.run(arguments, cwd=files, capture_output=True, text=True, check=False)
        assert result.returncode == 2
        assert told in result.stdout + result.stderr
        assert "Traceback" not in result.stderr


def test_the_commands_load_no_heavy_library() -> None:
    """Arrow alone would double the time of `config check`; the module itself must not slow `enrich --help` down."""
    heavy = "import sys; sys.exit(', '.join({'pydantic', 'ruamel', 'pyarrow', 'rich', 'pyspark'} & sys.modules.keys()))"
    loaded = "import sys; sys.exit(', '.join({'pyarrow', 'numpy', 'confluent_kafka', 'pyspark'} & sys.modules.keys()))"
    for imports, check in (("enrich.cli.config", heavy), ("enrich.config", loaded)):
        result = subprocess.run(
            [sys.executable, "-c", f"import {imports}; {check}"], capture_output=True, text=True, check=False
        )
        assert result.stderr.strip() == ""
