"""Topics that a source gets later begin where the brokers' events begin."""

import json

import pytest

from enrich.base.errors import ConfigError
from enrich.stage.progress.added_topics import enter_added
from enrich.stage.progress.source_topics import position_of
from tests.unit.stage.test_source_topics import HEAD, Folder

FIRST = {"in": {0: 3}, "whole": {0: 0, 1: 0}, "cut": {0: 0, 1: 7}}


def checkpoint(**texts):
    return Folder({"offsets/3": HEAD + '{"in":{"0":5}}', "offsets/4": HEAD + '{"in":{"0":9}}', **texts})


def test_only_a_topic_whose_oldest_events_are_deleted_is_entered_and_all_of_its_partitions_are():
    rest = checkpoint(**{"commits/4": "v1"})
    enter_added(rest, FIRST, lambda topic: FIRST[topic])
    assert position_of(rest) == {"in": {0: 9}, "cut": {0: 0, 1: 7}}
    assert rest["offsets/4"].splitlines()[:2] == HEAD.splitlines()
    assert json.loads(rest["offsets/3"].splitlines()[2]) == {"in": {"0": 5}}
    before = dict(rest)
    enter_added(rest, FIRST, lambda topic: {0: 0} if topic == "whole" else {0: 100})
    assert rest == before


def test_a_batch_that_will_be_repeated_stays_as_it_is():
    killed = checkpoint(**{"commits/3": "v1"})
    before = dict(killed)
    enter_added(killed, ["in", "whole"], lambda topic: FIRST[topic])
    with pytest.raises(ConfigError, match="the topics cut can be added"):
        enter_added(killed, FIRST, lambda topic: FIRST[topic])
    assert killed == before


def test_a_first_start_enters_nothing():
    enter_added(Folder(), FIRST, lambda topic: FIRST[topic])
