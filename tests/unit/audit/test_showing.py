"""What an audit says of ways that it could not audit."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from enrich.audit.auditing import Audit
from jobs import audit


def test_programs_are_told_which_ways_were_not_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a word of it they would take the way for one that has lost nothing."""

    @contextmanager
    def run_audit(*_: object) -> Iterator[Audit]:
        yield Audit(iter([]), {"plays > acme": "topic plays.raw is compacted"})

    file = tmp_path / "pipeline.yaml"
    file.write_text("name: plays\nkafka: {bootstrap_servers: 'localhost:9092'}\n")
    monkeypatch.setattr(audit, "run_audit", run_audit)
    for option in ("--json", "--all"):
        monkeypatch.setattr("sys.argv", ["audit.py", "-c", str(file), "--day", "2026-01-31", option])
        assert audit.main() == 0
    first, *people = capsys.readouterr().out.splitlines()
    told = json.loads(first)
    assert (told["route"], told["not_audited"]) == ("plays > acme", "topic plays.raw is compacted")
    assert "not audited" in people[0]
