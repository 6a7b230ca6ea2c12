import io
import json
import logging

import pytest

from enrich.base import errors
from enrich.base.exits import exit_code, print_error
from enrich.base.json_lines import print_json
from enrich.base.logs import LogFormat, LogLevel, setup_logs


@pytest.fixture(autouse=True)
def logs_as_before():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.ConfigError, 2),
        (errors.Unreachable, 3),
        (errors.WouldLoseData, 4),
        (errors.Retryable, 5),
        (errors.BadRecord, 5),
        (errors.CorruptState, 5),
        (errors.Fenced, 5),
        (errors.Fatal, 5),
    ],
)
def test_every_kind_of_error_has_its_exit_code(kind, code):
    assert exit_code(kind("x")) == code


def test_an_error_is_shown_with_place_and_next_step_and_no_markup_is_read_into_it(capsys):
    print_error(errors.ConfigError("no key [red]x[/]", where="a.yaml:3", next_step="try `y`"))
    shown = capsys.readouterr()
    assert shown.err == "error: no key [red]x[/]\nwhere: a.yaml:3\nnext:  try `y`\n"
    assert shown.out == ""


def test_an_error_is_a_log_record_where_logs_are_json(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    setup_logs(LogFormat.json, LogLevel.warning)
    print_error(errors.Unreachable("gone", where="localhost:1", next_step="start it"))
    logging.getLogger("enrich.x").warning("slow", extra={"offset": 7})
    first, second = map(json.loads, stream.getvalue().splitlines())
    told = {"level": "error", "message": "gone", "where": "localhost:1", "next": "start it", "kind": "Unreachable"}
    assert told.items() <= first.items()
    assert {"level": "warning", "logger": "enrich.x", "message": "slow", "offset": 7}.items() <= second.items()


def test_json_output_is_one_object_on_one_line(capsys):
    print_json({"a": "line\nbreak", "ü": None})
    assert capsys.readouterr().out == '{"a": "line\\nbreak", "ü": null}\n'


def test_json_output_escapes_what_its_encoding_lacks(monkeypatch):
    out = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out, encoding="ascii", errors="replace"))
    print_json({"ü": "日本", "n": 12345678901234567890})
    assert out.getvalue() == b'{"\\u00fc": "\\u65e5\\u672c", "n": 12345678901234567890}\n'
