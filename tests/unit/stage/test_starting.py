"""--from: the words and times that a start without a checkpoint takes."""

import pytest

from enrich.base.errors import ConfigError
from enrich.stage.progress.group import ends_of
from enrich.stage.progress.source_topics import BEGINNING
from enrich.stage.progress.starting import From, begin_as_chosen
from tests.unit.stage.test_source_topics import HEAD, Folder


@pytest.mark.parametrize("word", ["earliest", "latest", "group"])
def test_words_are_taken(word):
    assert From.parse(word) == From(word=word)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-11-21T10:00:00Z", 1795255200000),
        ("2026-11-21T11:00:00+01:00", 1795255200000),
        ("2026-11-21T10:00:00", 1795255200000),
        ("2026-11-21", 1795219200000),
    ],
)
def test_times_are_taken_in_utc_unless_they_say_otherwise(text, time_ms):
    assert From.parse(text) == From(time_ms=time_ms)


@pytest.mark.parametrize("time", ["1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.998Z", "1900-01-01"])
def test_a_time_before_1970_is_the_beginning_and_no_number_of_the_brokers(time):
    assert From.parse(time) == From(word="earliest")
    assert From.parse("1970-01-01") == From(time_ms=0)


@pytest.mark.parametrize("text", ["", "yesterday", "1795255200000x"])
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError, match="--from"):
        From.parse(text)


def test_the_ends_of_a_batch_are_read_from_what_spark_tells():
    assert ends_of({"sources": [{"endOffset": '{"in":{"0":5,"1":7}}'}]}) == {"in": {0: 5, 1: 7}}
    assert ends_of({"sources": [{"endOffset": {"in": {"0": 5}}}]}) == {"in": {0: 5}}
    assert ends_of(None) == {}
    assert ends_of({"sources": [{"endOffset": None}]}) == {}


BEGUN = {BEGINNING: '\x00v1\n{"in":{"0":7}}'}


def test_a_start_that_says_where_to_begin_is_not_held_to_where_one_without_a_batch_would_have_begun():
    checkpoint = Folder(BEGUN)
    begin_as_chosen(checkpoint, "enrich", None)
    assert checkpoint == BEGUN
    begin_as_chosen(checkpoint, "enrich", From.parse("earliest"))
    assert checkpoint == {}
    begin_as_chosen(checkpoint, "enrich", From.parse("earliest"))
    assert checkpoint == {}


def test_it_is_refused_if_another_driver_has_done_its_first_batch_meanwhile():
    checkpoint = Folder({**BEGUN, "offsets/0": HEAD + '{"in":{"0":9}}'})
    with pytest.raises(ConfigError, match="--from is for a start without a checkpoint"):
        begin_as_chosen(checkpoint, "enrich", From.parse("earliest"))
    assert BEGINNING in checkpoint
