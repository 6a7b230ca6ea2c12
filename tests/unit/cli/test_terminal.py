"""Keys, reasons and headers are what others have written: commands show them, and no terminal obeys them."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from enrich.admin.rejected.letter import Letter
from enrich.admin.topics.checking import Checked, Finding, Problem
from enrich.base.errors import Retryable
from enrich.base.exits import print_error
from enrich.base.json_lines import json_text
from enrich.base.logs import JsonLines, TextLines
from enrich.cli.rejected import dlq, kit
from enrich.cli.services import statuses
from enrich.cli.table import snapshots, table
from enrich.cli.topics import moves, topics
from enrich.host.reader.rows import Row
from sync_service.reconcile import command
from sync_service.reconcile.differences import Differences
from sync_service.reconcile.reconciliation import Report
from sync_service.reconcile.stamps import STAMP

HOSTILE = "a\x1b]0;owned\x07\x9b2J\x7f\u202eb"
ESCAPED = r"a\x1b]0;owned\x07\x9b2J\x7f\u202eb"
WIDE = "300"


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", WIDE)


def _is_harmless(shown: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in shown)


def _letter() -> Letter:
    header = (HOSTILE, b"1")
    return Letter("plays.dlq", HOSTILE, "plays", 0, 1, HOSTILE, HOSTILE, HOSTILE, b"k", b"v", 1, [header], 0, 0)


def test_rows(capsys):
    table._show([Row(HOSTILE, "hit", {"name": HOSTILE}, 0, 1, 2)], as_json=False)
    shown = capsys.readouterr().out
    assert ESCAPED in shown
    assert _is_harmless(shown)


def test_letters(capsys):
    dlq._show_letter(_letter(), [])
    shown = capsys.readouterr().out
    assert shown.count(ESCAPED) == 5  # name, stage, lookup, reason, header
    assert _is_harmless(shown)


def test_reasons(capsys):
    kit.show_groups(["reason"], [[HOSTILE]])
    shown = capsys.readouterr().out
    assert ESCAPED in shown
    assert _is_harmless(shown)


def test_what_is_longer_than_its_column_is_not_cut(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    table._show([Row("ann", "hit", {"since": "2024-05-01T00:00:00+00:00"}, 0, 1, 1_700_000_000_000)], as_json=False)
    kit.show_groups(["dlq", "stage", "reason", "letters", "first", "newest"], [["plays.dlq/1/2" * 3] * 6])
    assert "…" not in capsys.readouterr().out


def test_what_is_purged(capsys, monkeypatch):
    monkeypatch.setattr(dlq, "_start", lambda *_: (None, None))
    monkeypatch.setattr(dlq, "_letters", lambda *_: [_letter()])
    with pytest.raises(Exception, match="add --yes"):
        dlq.purge(Path(), every=True)
    shown = capsys.readouterr().out
    assert shown == f"{ESCAPED}: {ESCAPED}\n"


def test_keys_that_differ_on_this_host(capsys):
    from enrich.admin.verify.comparing import Compared, Kind
    from enrich.admin.verify.comparing import Difference as OnHost

    snapshots._show("users", Compared(differences=1), [OnHost(next(iter(Kind)), "differs", HOSTILE.encode())])
    shown = capsys.readouterr().out
    assert ESCAPED in shown
    assert _is_harmless(shown)


def test_keys_in_two_partitions(capsys):
    found = Checked("users")
    found.findings.append(Finding(next(iter(Problem)), f"in two partitions: {HOSTILE}", "move them"))
    topics._show_checked(found, as_json=False)
    shown = capsys.readouterr().out
    assert ESCAPED in shown
    assert _is_harmless(shown)


def test_keys_that_a_move_has_not_made_equal(capsys):
    numbers = {"records": 1, "without_key": 0, "split_keys": 0, "differences": 1, "keys": 1}
    fields = {"source": "a", "target": "b", "resumed": False, "quiet": True, "examples": [HOSTILE], **numbers}
    moves._show(fields, cutover=True)
    shown = capsys.readouterr().out
    assert ESCAPED in shown
    assert _is_harmless(shown)


def test_routes(capsys):
    route: dict[str, Any] = {
        "name": "users",
        "state": "waiting",
        "lag": None,
        "rows_per_s": 0.0,
        "counters": {},
        "details": {},
    }
    statuses._print_people([{**route, "last_error": f"two rows have the key {HOSTILE}"}])
    shown = capsys.readouterr().out
    assert ESCAPED in shown
    assert _is_harmless(shown)


def test_errors(capsys):
    print_error(Retryable(f"two rows have the key {HOSTILE}\n  and more", where=HOSTILE, next_step=HOSTILE))
    shown = capsys.readouterr().err
    assert shown.count(ESCAPED) == 3
    assert _is_harmless(shown)


def test_lines_of_the_log():
    record = logging.makeLogRecord(
        {"msg": "the key %s\nmore", "args": (HOSTILE,), "levelname": "INFO", "route": HOSTILE}
    )
    shown = TextLines().format(record)
    assert shown.count(ESCAPED) == 2
    assert _is_harmless(shown)


FORGED = "no\n12:00:00.000 ERROR   enrich: it burns\r\x85\u2028\u2029 and more"


@pytest.mark.parametrize("lines", [TextLines(), JsonLines()], ids=["text", "json"])
def test_a_record_of_the_log_is_one_line_whatever_it_quotes(lines):
    record = logging.makeLogRecord({"msg": "the answer: %s", "args": (FORGED,), "levelname": "INFO", "route": FORGED})
    shown = lines.format(record)
    assert shown.splitlines() == [shown]
    if isinstance(lines, JsonLines):
        assert (json.loads(shown)["message"], json.loads(shown)["route"]) == (f"the answer: {FORGED}", FORGED)


def test_what_a_traceback_quotes_is_no_record_of_the_log():
    try:
        raise ValueError(f"{HOSTILE}{FORGED}")
    except ValueError:
        record = logging.makeLogRecord({"msg": "a bug", "levelname": "ERROR", "exc_info": sys.exc_info()})
    first, *others = TextLines().format(record).splitlines()
    assert first.endswith("a bug")
    assert others and all(line.startswith("  ") and _is_harmless(line) for line in others)


def test_json_for_machines_is_one_line():
    text = json_text({"name": FORGED})
    assert text.splitlines() == [text]
    assert json.loads(text) == {"name": FORGED}


def test_json_stays_what_it_is():
    row = {"name": HOSTILE}
    text = json_text(row)
    assert json.loads(text) == row
    assert not any(character < " " or "\x7f" <= character <= "\x9f" for character in text)


def test_keys_that_differ_in_a_store(capsys):
    key, stamps = HOSTILE.encode(), np.zeros(1, STAMP)
    differences = Differences(pa.array([key], pa.binary()), np.ones(1, np.uint8), stamps, stamps)
    command._print_people(Report("users", 1, differences, 1, foreign=1, some_foreign=[key]))
    shown = capsys.readouterr().out
    assert shown.count(ESCAPED) == 2
    assert _is_harmless(shown)
