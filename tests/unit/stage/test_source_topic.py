"""Where a checkpoint stands, from what Spark recorded in it."""

import pytest

from enrich.base.errors import WouldLoseData
from enrich.stage.progress.source_topic import SourceTopic, position_of

HEAD = 'v1\n{"batchWatermarkMs":0}\n'


class Folder(dict[str, str]):
    """A checkpoint's texts by their names."""

    def batches(self, name):
        return sorted(int(path.rpartition("/")[2]) for path in self if path.startswith(f"{name}/"))

    def read(self, name):
        return self.get(name)

    def write(self, name, text):
        self[name] = text


@pytest.mark.parametrize(
    ("texts", "position"),
    [
        ({}, {}),
        ({"offsets/0": HEAD + '{"in":{"0":5}}', "sources/0/0": '\x00v1\n{"in":{"0":2,"1":0}}'}, {0: 2, 1: 0}),
        ({"offsets/0": HEAD + '{"in":{"0":5}}', "commits/0": "v1"}, {0: 5}),
        ({"offsets/3": HEAD + '{"in":{"0":5}}', "offsets/4": HEAD + '{"in":{"0":9}}', "commits/3": "v1"}, {0: 5}),
        ({"offsets/3": HEAD + '{"in":{"0":5}}', "offsets/4": HEAD + '{"in":{"0":9}}', "commits/4": "v1"}, {0: 9}),
        ({"offsets/4": HEAD + '{"in":{"0":9}}', "commits/2": "v1"}, {}),  # `replay: latest`, killed: Spark judges
    ],
)
def test_the_position_is_where_the_next_start_reads_on(texts, position):
    assert position_of(Folder(texts), "in") == position


def test_a_position_is_kept_between_where_the_topic_begins_and_where_it_ends():
    source = SourceTopic("in", "an-id")
    source.require_kept({0: 5, 1: 0}, {0: 5, 1: 0}, {0: 5, 1: 3})
    for position, says in (({0: 4}, "deleted 1 events"), ({0: 6}, "beyond the topic's end"), ({2: 0}, "is not there")):
        with pytest.raises(WouldLoseData, match=says):
            source.require_kept(position, {0: 5, 1: 0}, {0: 5, 1: 3})


def test_a_checkpoint_is_of_one_topic_by_name_and_id():
    checkpoint, source = Folder({"offsets/0": "v1"}), SourceTopic("in", "an-id")
    source.require_known_to(checkpoint)
    source.keep_with(checkpoint)
    source.require_known_to(checkpoint)
    with pytest.raises(WouldLoseData, match="recreated"):
        SourceTopic("in", "another-id").require_known_to(checkpoint)
    SourceTopic("in", "another-id").require_known_to(checkpoint, accepts_another=True)
    with pytest.raises(WouldLoseData, match="offsets of the topic in"):
        SourceTopic("other", "an-id").require_known_to(checkpoint, accepts_another=True)
