"""A source that answers empty or half deletes nothing until a person says so."""

import json

import pytest

from enrich.base.errors import ConfigError
from sync_service.sources import command
from sync_service.sources.building import directory_of
from sync_service.sources.known.deletions import answer
from tests.support.sync.sources import SourceWorld, has_read, is_held, repeats
from tests.support.waiting import wait_until


@pytest.mark.parametrize("cursor", [False, True])
@pytest.mark.parametrize("answer", ["truncated", "half"])
def test_too_many_missing_rows_hold_the_source_and_nothing_is_produced(
    source: SourceWorld, cursor: bool, answer: str
) -> None:
    source.make_topic()
    source.make_table(rows=100)
    if cursor:
        source.with_cursor()
    with source.running() as service:
        source.wait_equal()
        before = source.in_topic()
        with source.postgres.transaction():
            source.execute("TRUNCATE {}" if answer == "truncated" else "DELETE FROM {} WHERE id % 2 = 0")
            source.execute("UPDATE {} SET plan = 'changed', at = clock_timestamp() WHERE id = 1")
        wait_until(lambda: is_held(service), what="the held source")
        error = str(service.status("in").last_error)
        assert "nothing was produced" in error and "enrich sync confirm in" in error
        if not cursor:
            assert source.in_topic() == before
        else:  # what changed may have been read before the keys were
            assert source.in_topic().keys() == before.keys()


def test_an_empty_source_asks_whatever_the_guard_is(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=3)
    source.settings |= {"delete_guard": 1}
    with source.running() as service:
        source.wait_equal()
        source.execute("DELETE FROM {} WHERE id < 3")
        source.wait_equal()
        source.execute("TRUNCATE {}")
        wait_until(lambda: is_held(service))
    assert len(source.in_topic()) == 1


def test_a_person_confirms_once(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=100)
    with source.running() as service:
        source.wait_equal()
        source.execute("DELETE FROM {} WHERE id > 40")
        wait_until(lambda: is_held(service))
    question = command.asked(source.pipeline(), "in")
    assert (question.missing, question.rows) == (60, 100)
    command.allow(source.pipeline(), "in")
    with source.running() as service:
        source.wait_equal()
        wait_until(lambda: has_read(service))
        source.execute("DELETE FROM {} WHERE id > 10")
        wait_until(lambda: is_held(service), what="the next question")
        assert len(source.in_topic()) == 40
    assert repeats(source.versions()) == []


def test_an_answer_is_not_for_more_than_was_asked(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=100)
    with source.running() as service:
        source.wait_equal()
        source.execute("DELETE FROM {} WHERE id > 60")
        wait_until(lambda: is_held(service))
    command.allow(source.pipeline(), "in")
    source.execute("TRUNCATE {}")
    with source.running() as service:
        wait_until(lambda: is_held(service))
        assert "not have a single row" in str(service.status("in").last_error)
    assert len(source.in_topic()) == 100


def test_rows_that_come_back_need_no_person(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=100)
    with source.running() as service:
        source.wait_equal()
        with source.postgres.transaction():
            source.execute("ALTER TABLE {0} RENAME TO {0}_aside")
            source.make_table()
        wait_until(lambda: is_held(service))
        assert "not have a single row" in str(service.status("in").last_error)
        with source.postgres.transaction():
            source.execute("DROP TABLE {}")
            source.execute("ALTER TABLE {0}_aside RENAME TO {0}")
        wait_until(lambda: has_read(service), what="the source to go on")
        source.execute("DELETE FROM {} WHERE id <= 20")
        source.wait_equal()
    assert source.records() == 120


def test_a_source_that_asks_for_nothing_cannot_be_answered(source: SourceWorld) -> None:
    with pytest.raises(ConfigError, match="no open question"):
        command.allow(source.pipeline(), "in")
    with pytest.raises(ConfigError, match="sources: in"):
        command.allow(source.pipeline(), "im")


def test_an_answer_is_for_the_question_that_was_asked_and_for_no_later_one(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=100)
    with source.running() as service:
        source.wait_equal()
        source.execute("CREATE TABLE {0}_kept AS SELECT * FROM {0}")
        source.execute("DELETE FROM {} WHERE id > 1")
        wait_until(lambda: is_held(service))
    # The rows come back while the person answers.
    command.allow(source.pipeline(), "in")
    source.execute("INSERT INTO {0} SELECT * FROM {0}_kept ON CONFLICT DO NOTHING")
    with source.running() as service:
        wait_until(lambda: has_read(service), what="the source to go on")
        # Another outage, another day: nobody was asked about this one.
        source.execute("DELETE FROM {} WHERE id > 2")
        wait_until(lambda: is_held(service), what="a question of its own")
    assert len(source.in_topic()) == 100
    assert command.asked(source.pipeline(), "in").missing == 98


def test_an_answer_holds_for_a_day(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=100)
    with source.running() as service:
        source.wait_equal()
        source.execute("DELETE FROM {} WHERE id > 1")
        wait_until(lambda: is_held(service))
    question = command.asked(source.pipeline(), "in")
    directory = directory_of(source.pipeline(), "in")
    answer(directory, question)
    file = directory / "deletions-answer.json"
    given = json.loads(file.read_text())
    file.write_text(json.dumps(given | {"answered_ms": given["answered_ms"] - 86_400_001}))
    with source.running() as service:
        wait_until(lambda: is_held(service), what="the question again")
    assert len(source.in_topic()) == 100
