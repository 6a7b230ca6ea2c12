"""Topics that a source gets later begin where the brokers' events begin."""

import json

import pytest

from enrich.base.errors import WouldLoseData
from enrich.stage.progress.added_topics import enter_added
from enrich.stage.progress.source_topics import offsets_in, position_of
from tests.unit.stage.test_source_topics import HEAD, Folder

FIRST = {"in": {0: 3}, "whole": {0: 0, 1: 0}, "cut": {0: 0, 1: 7}}


def checkpoint(**texts):
    return Folder({"offsets/3": HEAD + '{"in":{"0":5}}', "offsets/4": HEAD + '{"in":{"0":9}}', **texts})


def enter(checkpoint, topics=FIRST, *, is_pinned=False, **other):
    enter_added(checkpoint, topics, lambda topic: {**FIRST, **other}[topic], is_pinned=is_pinned)


def test_only_a_topic_whose_oldest_events_are_deleted_is_entered_and_all_of_its_partitions_are():
    rest = checkpoint(**{"commits/4": "v1"})
    enter(rest, is_pinned=True)
    assert position_of(rest) == {"in": {0: 9}, "cut": {0: 0, 1: 7}}
    assert rest["offsets/4"].splitlines()[:2] == HEAD.splitlines()
    assert json.loads(rest["offsets/3"].splitlines()[2]) == {"in": {"0": 5}}
    before = dict(rest)
    enter(rest, cut={0: 100})
    assert rest == before, "entered once"


def test_a_batch_that_will_be_repeated_reads_nothing_of_the_topic():
    # With async progress there is not a record of each batch.
    killed = checkpoint(**{"commits/1": "v1"})
    killed["offsets/1"] = killed.pop("offsets/3")
    enter(killed)
    begins, ends = (offsets_in(killed[f"offsets/{number}"]) for number in (1, 4))
    assert (begins, ends) == ({"in": {0: 5}, "cut": FIRST["cut"]}, {"in": {0: 9}, "cut": FIRST["cut"]})
    first = Folder({"sources/0/0": '\x00v1\n{"in":{"0":2}}', "offsets/0": HEAD + '{"in":{"0":5}}'})
    enter(first)
    assert offsets_in(first["sources/0/0"]) == {"in": {0: 2}, "cut": FIRST["cut"]}
    assert offsets_in(first["offsets/0"]) == {"in": {0: 5}, "cut": FIRST["cut"]}


def test_a_batch_with_a_pin_that_will_be_repeated_stays_as_it_is():
    killed = checkpoint(**{"commits/3": "v1"})
    before = dict(killed)
    enter(killed, ["in", "whole"], is_pinned=True)
    with pytest.raises(WouldLoseData, match=r"of the topics cut, which are new.* --new-pin"):
        enter(killed, is_pinned=True)
    assert killed == before


def test_a_topic_that_is_new_in_the_batch_that_will_be_repeated_begins_with_what_is_left():
    killed = checkpoint(**{"commits/3": "v1"})
    killed["offsets/4"] = HEAD + '{"in":{"0":9},"cut":{"0":3,"1":5},"whole":{"0":2,"1":2}}'
    enter(killed)
    assert offsets_in(killed["offsets/3"]) == {"in": {0: 5}, "cut": {0: 0, 1: 7}}
    assert offsets_in(killed["offsets/4"]) == {"in": {0: 9}, "cut": {0: 3, 1: 7}, "whole": {0: 2, 1: 2}}


def test_a_first_start_enters_nothing():
    nothing = Folder()
    enter(nothing)
    assert nothing == {}


def test_where_no_batch_was_ever_planned_only_the_topics_of_now_are_begun():
    idle = Folder({"sources/0/0": '\x00v1\n{"in":{"0":7},"gone":{"0":2}}'})
    enter(idle)
    expected = {"in": {"0": 7}, "cut": {"0": 0, "1": 7}, "whole": {"0": 0, "1": 0}}
    head, line = idle["sources/0/0"].split("\n")
    assert (head, json.loads(line)) == ("\x00v1", expected)
