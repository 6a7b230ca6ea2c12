"""Where a checkpoint stands, from what Spark recorded in it."""

import json

import pytest

from enrich.base.errors import WouldLoseData
from enrich.stage.progress.source_topics import NAME, SourceTopics, position_of, require_kept

HEAD = 'v1\n{"batchWatermarkMs":0}\n'


class Folder(dict[str, str]):
    """A checkpoint's texts by their names."""

    def batches(self, name):
        return sorted(int(path.rpartition("/")[2]) for path in self if path.startswith(f"{name}/"))

    def read(self, name):
        return self.get(name)

    def write(self, name, text):
        self[name] = text

    def delete(self, name):
        self.pop(name, None)


@pytest.mark.parametrize(
    ("texts", "position"),
    [
        ({}, {}),
        ({"offsets/0": HEAD + '{"in":{"0":5}}', "sources/0/0": '\x00v1\n{"in":{"0":2,"1":0}}'}, {0: 2, 1: 0}),
        ({"offsets/0": HEAD + '{"in":{"0":5}}', "commits/0": "v1"}, {0: 5}),
        ({"offsets/3": HEAD + '{"in":{"0":5}}', "offsets/4": HEAD + '{"in":{"0":9}}', "commits/3": "v1"}, {0: 5}),
        ({"offsets/3": HEAD + '{"in":{"0":5}}', "offsets/4": HEAD + '{"in":{"0":9}}', "commits/4": "v1"}, {0: 9}),
        ({"offsets/4": HEAD + '{"in":{"0":9}}', "commits/2": "v1"}, {}),  # `replay: latest`, killed: Spark judges
        # With async progress there is not a record of each batch.
        (
            {f"offsets/{batch}": f'{HEAD}{{"in":{{"0":{batch}}}}}' for batch in (3, 8, 13)}
            | {"commits/3": "v1", "commits/8": "v1"},
            {0: 8},
        ),
        ({"offsets/5": HEAD + '{"in":{"0":9}}', "sources/0/0": '\x00v1\n{"in":{"0":2}}'}, {0: 2}),
        ({"sources/0/0": '\x00v1\n{"in":{"0":2}}'}, {0: 2}),  # it ended before its first batch
    ],
)
def test_the_position_is_where_the_next_start_reads_on(texts, position):
    assert position_of(Folder(texts)) == ({"in": position} if position else {})


def test_a_position_is_kept_between_where_the_topic_begins_and_where_it_ends():
    require_kept("in", {0: 5, 1: 0}, {0: 5, 1: 0}, {0: 5, 1: 3})
    for position, says in (({0: 4}, "deleted 1 events"), ({0: 6}, "beyond the topic's end"), ({2: 0}, "is not there")):
        with pytest.raises(WouldLoseData, match=says):
            require_kept("in", position, {0: 5, 1: 0}, {0: 5, 1: 3})


def test_whoever_is_to_begin_at_the_beginning_is_told_what_else_begins_there():
    with pytest.raises(WouldLoseData, match="--from earliest: what the brokers still have of other partitions is"):
        require_kept("in", {0: 4, 1: 0}, {0: 5, 1: 0}, {0: 5, 1: 3})
    with pytest.raises(WouldLoseData, match="--from earliest: all topics of the stage are read from their beginning"):
        continued(kept(a="1", b="2"), {"a": "1", "b": "other"})


def kept(**ids):
    """A checkpoint of a stage that read these topics."""
    checkpoint = Folder({"offsets/0": HEAD + json.dumps({topic: {"0": 5} for topic in ids}), "commits/0": "v1"})
    SourceTopics(ids).keep_with(checkpoint)
    return checkpoint


def continued(checkpoint, ids, pattern="no topic", **choices):
    reads = {**ids, pattern: ""}.__contains__
    return SourceTopics(ids).continued(checkpoint, reads, **choices)


def test_a_checkpoint_is_of_one_topic_by_name_and_id():
    assert continued(Folder({"offsets/0": "v1"}), {"in": "an-id"}).ids == {"in": "an-id"}
    checkpoint = kept(**{"in": "an-id"})
    assert json.loads(checkpoint[NAME]) == {"topic": "in", "topic_id": "an-id"}, "what earlier releases read"
    assert continued(checkpoint, {"in": "an-id"}).ids == {"in": "an-id"}
    with pytest.raises(WouldLoseData, match="recreated"):
        continued(checkpoint, {"in": "another-id"})
    assert continued(checkpoint, {"in": "another-id"}, accepts_another=True).ids == {"in": "another-id"}
    with pytest.raises(WouldLoseData, match=r"offsets of the topic in, .* --from earliest"):
        continued(checkpoint, {"other": "an-id"}, accepts_another=True)


def test_topics_may_be_added_but_none_may_be_removed_or_made_again():
    checkpoint = kept(a="1", b="2")
    added = continued(checkpoint, {"a": "1", "b": "2", "c": "3"})
    assert added.ids_in_letters == {"a": "1", "b": "2", "c": "3"}
    with pytest.raises(WouldLoseData, match=r"offsets of the topic b, .*\(topic b\).* --from group"):
        continued(checkpoint, {"a": "1", "c": "3"})
    with pytest.raises(WouldLoseData, match=r"deleted and recreated.*\(topic b\)"):
        continued(checkpoint, {"a": "1", "b": "other"})
    with pytest.raises(WouldLoseData, match=r"was deleted.*\(topic b\).* --from group"):
        continued(checkpoint, {"a": "1"}, pattern="b")
    with pytest.raises(WouldLoseData, match="offsets of the topics a, b"):
        continued(checkpoint, {"c": "3"})


def test_a_topic_without_a_recorded_id_counts_as_read_if_spark_has_offsets_of_it():
    checkpoint = kept(a="1", b="2")
    del checkpoint[NAME]
    with pytest.raises(WouldLoseData, match="offsets of the topic b"):
        continued(checkpoint, {"a": "1"})
    SourceTopics({"a": "1"}).keep_with(checkpoint)
    with pytest.raises(WouldLoseData, match="offsets of the topic b"):
        continued(checkpoint, {"a": "1"})


def test_a_query_without_a_batch_has_read_nothing_but_begins_in_these_topics():
    checkpoint = Folder({"sources/0/0": '\x00v1\n{"a":{"0":7},"b":{"0":2}}'})
    assert continued(checkpoint, {"a": "1"}).ids == {"a": "1"}, "it ended before it was known which they are"
    SourceTopics({"a": "1", "b": "2"}).keep_with(checkpoint)
    assert continued(checkpoint, {"a": "1", "c": "3"}).ids_in_letters == {"a": "1", "c": "3"}
    with pytest.raises(WouldLoseData, match=r"deleted and recreated.*\(topic a\)"):
        continued(checkpoint, {"a": "other"})
    assert continued(checkpoint, {"a": "other"}, accepts_another=True).ids == {"a": "other"}
    checkpoint["sources/0/0"] = '\x00v1\n{"a":{"0":0}}'
    assert continued(checkpoint, {"a": "other"}).ids == {"a": "other"}, "it would be read from its beginning"
    del checkpoint["sources/0/0"]
    assert continued(checkpoint, {"a": "other"}).ids == {"a": "other"}, "it begins nowhere yet"


def test_letters_of_a_topic_that_was_found_late_keep_their_keys_until_it_is_made_again():
    late = SourceTopics({"a": "1"}).with_late({"b": "2"})
    assert late.ids_in_letters == {"a": "1"}
    checkpoint = kept(a="1", b="2")
    late.keep_with(checkpoint)
    assert continued(checkpoint, {"a": "1", "b": "2"}) == late
    again = continued(checkpoint, {"a": "1", "b": "3"}, accepts_another=True)
    assert again.ids_in_letters == {"a": "1", "b": "3"}
    # Killed before it could be recorded.
    SourceTopics({"a": "1"}).keep_with(checkpoint)
    assert continued(checkpoint, {"a": "1", "b": "2"}) == late
