"""Versions of what is written back: a key's newest event has the highest, however its topic grows."""

from enrich.stage.progress.source_versions import SourceVersions, source_versions
from enrich.stage.realtime.notes import Note

OFFSETS = 2**40


class Kept:
    """Beside the checkpoint and with the group: what a stage finds at its next start."""

    beside = "../enrich.versions"

    def __init__(self):
        self.file = None
        self.note = None
        self.older_note = None
        self.done = {}

    def read(self, name):
        assert name == self.beside
        return self.file

    def write(self, name, text):
        assert name == self.beside
        self.file = text

    def committed(self, topic, partitions):  # noqa: ARG002 - as a group has it
        return self.done

    def committed_before(self, topic, partitions):  # noqa: ARG002
        return {}, self.older_note

    def remember(self, note):
        self.note = note


def started(kept, partitions, ends, topic_id="an-id"):
    return source_versions("events", topic_id, partitions, kept, kept, lambda: ends)


def version(versions, partition, offset):
    return (versions.generation - (offset < versions.starts[partition])) * OFFSETS + offset


def test_the_event_in_a_new_partition_wins_over_the_backlog_of_the_old_one():
    kept = Kept()
    before = started(kept, 1, {0: 0})
    kept.done = {0: 51}  # of 102, while the topic grew: the rest comes now
    after = started(kept, 2, {0: 102, 1: 1})
    first, backlog, newest = version(before, 0, 50), version(after, 0, 101), version(after, 1, 0)
    assert first < backlog < newest
    assert version(after, 0, 102) > backlog
    assert started(kept, 2, {0: 200, 1: 90}) == after


def test_a_new_generation_is_above_all_that_came_before():
    kept = Kept()
    before = started(kept, 1, {0: 0})
    again = started(kept, 1, {0: 0}, topic_id="another-id")
    assert version(again, 0, 0) > version(before, 0, OFFSETS - 1)


def test_what_the_group_of_an_earlier_release_knows_is_counted_on_from_where_nothing_else_is_known():
    kept = Kept()
    kept.older_note = SourceVersions("events", "an-id", 7, [0]).to_text()
    assert started(kept, 1, {0: 5}).generation == 7
    kept.older_note = SourceVersions("events", "an-id", 9, [0]).to_text()
    assert started(kept, 1, {0: 5}).generation == 7


def test_what_slots_have_noted_in_the_group_is_no_version():
    """The stage had no write-back while it was realtime."""
    kept = Kept()
    kept.note = Note("a-run", 0).to_text()
    assert started(kept, 1, {0: 5}) == SourceVersions("events", "an-id", 1, [0])
    assert started(kept, 1, {0: 9}) == SourceVersions("events", "an-id", 1, [0])


def test_versions_are_above_those_that_another_stage_or_a_field_has_given_before():
    kept, written = Kept(), 7 * OFFSETS + 99
    now = source_versions("events", "an-id", 1, kept, kept, lambda: {0: 5}, written)
    assert version(now, 0, 0) > written
    assert source_versions("events", "an-id", 1, kept, kept, lambda: {0: 5}, version(now, 0, 3)) == now
