"""What people see of a source, and how they answer it."""

import json
import subprocess
import sys
from pathlib import Path

from enrich.service.routes import RouteState
from tests.support.sync.service import SHORT_SESSIONS
from tests.support.sync.sources import SourceWorld, has_read, is_held
from tests.support.waiting import wait_until


def enrich(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "enrich", "sync", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)


def test_a_held_source_is_confirmed_by_a_command(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=100)
    file = source.file()
    assert enrich("confirm", "in", "-c", file).returncode == 2
    with source.running() as service:
        source.wait_equal()
        source.execute("DELETE FROM {} WHERE id > 30")
        wait_until(lambda: is_held(service))
        told = enrich("confirm", "in", "-c", file)
        assert told.returncode == 4
        assert "70 of 100 rows would be deleted" in told.stderr and "--yes" in told.stderr
        assert is_held(service)
        confirmed = enrich("confirm", "in", "-c", file, "--yes", "--json")
        assert confirmed.returncode == 0, confirmed.stderr
        answer = json.loads(confirmed.stdout)
        assert (answer["source"], answer["missing"], answer["rows"], answer["confirmed"]) == ("in", 70, 100, True)
        source.wait_equal()
    assert list(source.known.glob("deletions*")) == []


def test_a_source_that_is_away_is_waited_for_and_its_password_never_told(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=10)
    source.client = SHORT_SESSIONS  # the turn of one that was killed
    good = source.origin
    source.origin = {"postgres": {**good["postgres"], "dsn": "postgresql://me:secret-password@127.0.0.1:1/x"}}
    with source.process():
        log = Path(source.directory / "service.log")
        wait_until(lambda: "check that PostgreSQL runs" in log.read_text(), what="the reason in the log")
    assert "secret-password" not in log.read_text()
    with source.running() as service:
        wait_until(lambda: service.status("in").state is RouteState.waiting and service.status("in").last_error)
        assert "secret-password" not in str(service.status("in"))
    source.origin = good
    with source.running() as service:
        source.wait_equal()
        wait_until(lambda: has_read(service))
        assert service.status("in").last_error is None


def test_a_wrong_password_ends_the_service(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table()
    dsn = source.dsn.replace("postgresql://enrich:", "postgresql://enrich:wrong")
    source.origin = {"postgres": {**source.origin["postgres"], "dsn": dsn}}
    with source.running() as service:
        assert "password authentication failed" in str(service.wait_ended())
