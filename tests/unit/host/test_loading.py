"""What a load makes of a topic that goes on while it is read."""

import random
from contextlib import closing

import pytest

from enrich.base.errors import Retryable
from enrich.host.load.loading import Listener, Order, load_from
from enrich.kafka import TopicSettings
from stores.rocks import RocksReader, RocksStore
from stores.snapshots import Origin, export_table
from tests.support.host.agents import plans_table
from tests.support.kafka.model_topic import ModelSource, ModelTopic, World, answer_of

MINUTE, HOUR = 60_000, 3_600_000
LISTENER = Listener(lambda _: None, lambda _: None, lambda: False)


class Loading:
    """`during` happens once, when the first records have been read."""

    def __init__(self, folder, history_ms=0, **settings):
        self.world = World()
        self.topic = ModelTopic(self.world, TopicSettings(frozenset({"compact"}), **settings), random.Random(1), 1)
        self.table = plans_table(ModelTopic.name, history_ms=history_ms)
        self.store = RocksStore(folder, {"users": self.table.spec}, self.world.clocks.wall)
        for number in range(20):
            self.topic.write(b"key-%d" % number, b'{"plan":"first"}')

    def load(self, during=lambda: None, head_start=None):
        left = [during]
        source = ModelSource(self.topic, lambda: left.pop()() if left else None)
        order = Order(self.table, answer_of(self.topic, lambda: None), {}, head_start)
        return load_from(source, self.store, order, LISTENER, self.world.clocks)

    def later(self, milliseconds):
        self.world.now_ms += milliseconds

    def snapshot(self, location):
        """Of the rows as they are now."""
        with closing(RocksReader(self.store.path, {"users": self.table.spec})) as reader:
            newest = reader.snapshot()
            rows = newest.table("users").whole()
            through, name = rows.state.complete_through or 0, self.table.name
            names = ("test", name, self.table.topic, self.table.definition)
            return export_table(rows, Origin(*names, newest.seq, through, through, rows.state.notes), location)


@pytest.fixture
def loading(tmp_path):
    def loading_(**settings):
        made.append(Loading(tmp_path / "rows", **settings))
        return made[-1]

    made: list[Loading] = []
    yield loading_
    for each in made:
        each.store.close()


def test_a_key_that_moves_on_while_the_topic_is_read_is_not_missing(loading):
    it = loading()

    def moves_on():
        it.topic.write(b"key-19", b'{"plan":"second"}')
        it.topic.write(b"other", b'{"plan":"first"}')
        it.later(10 * MINUTE)
        it.topic.clean()

    asked_at = it.world.now_ms
    loaded = it.load(moves_on)
    assert loaded.asked.wall_ms == asked_at + 10 * MINUTE
    assert it.store.tables["users"].rows == 21
    assert it.store.tables["users"].complete_through == loaded.asked.wall_ms


def test_a_load_that_outlasts_the_tombstones_shows_nothing_and_says_what_to_do(loading):
    it = loading(delete_retention_ms=HOUR)

    def deleted_and_forgotten():
        it.topic.write(b"key-0", None)
        it.topic.write(b"other", b'{"plan":"first"}')
        it.later(10 * MINUTE)
        it.topic.clean()
        it.later(2 * HOUR)
        it.topic.clean()

    with pytest.raises(Retryable, match=r"deletions may have been missed.*7,800 s.*3,600 s.*delete\.retention\.ms"):
        it.load(deleted_and_forgotten)
    assert not it.store.tables["users"].positions
    assert it.load() is not None
    assert it.store.tables["users"].rows == 20  # without `key-0`, and with `other`


@pytest.mark.parametrize("lag_ms", [0, 1_000, 30_000, HOUR])
def test_history_never_begins_after_what_was_read(loading, lag_ms):
    it = loading(history_ms=HOUR, min_compaction_lag_ms=lag_ms)
    it.later(2 * HOUR)
    loaded = it.load()
    assert it.store.tables["users"].floors[0].timestamp <= loaded.asked.wall_ms


def test_a_load_asks_again_once_the_cleaner_may_have_come(loading):
    it = loading()

    def moves_on():
        it.topic.write(b"key-19", b'{"plan":"second"}')
        it.topic.write(b"other", b'{"plan":"first"}')
        it.later(it.topic.settings.untouched_ms)  # not a millisecond more
        it.topic.clean()

    asked_at = it.world.now_ms
    assert it.load(moves_on).asked.wall_ms > asked_at
    assert it.store.tables["users"].rows == 21


@pytest.mark.parametrize("asks", [1, 2])
def test_a_load_is_complete_up_to_a_moment_before_its_ends_were_asked_for(loading, monkeypatch, asks):
    """What comes while the request is on its way is not below the ends that it brings."""
    it, sent, ends_of = loading(), [], ModelSource.ends

    def slowly(source):
        ends = ends_of(source)
        sent.append(it.world.now_ms)
        it.later(1_000)
        return ends

    monkeypatch.setattr(ModelSource, "ends", slowly)
    loaded = it.load(lambda: it.later(0 if asks == 1 else it.topic.settings.untouched_ms))
    assert len(sent) == asks
    assert it.store.tables["users"].complete_through == loaded.asked.wall_ms == sent[-1]


def test_a_topic_that_is_made_again_while_it_is_read_leaves_the_table_as_it_was(loading):
    it = loading()

    def is_made_again():
        it.topic.make(partitions=1)
        for number in range(30):
            it.topic.write(b"other-%d" % number, b'{"plan":"first"}')

    with pytest.raises(Retryable, match="recreated while it was read"):
        it.load(is_made_again)
    assert not it.store.tables["users"].positions


def test_a_topic_that_loses_its_tail_while_it_is_read_leaves_the_table_as_it_was(loading):
    """Its rows would stay, although the topic has others at their offsets now, and nobody would read those."""
    it = loading()

    def loses_its_tail():
        partition = it.topic.now.partitions[0]
        partition.log, partition.end = partition.log[:5], partition.log[5].offset
        it.later(it.topic.settings.untouched_ms)

    with pytest.raises(Retryable, match="cut short while it was read"):
        it.load(loses_its_tail)
    assert not it.store.tables["users"].positions


@pytest.mark.parametrize("takes_ms", [5 * HOUR, 5 * HOUR + MINUTE])
def test_how_long_a_load_may_take_counts_from_when_its_snapshot_was_complete(loading, tmp_path, takes_ms):
    """A tombstone may have come after the snapshot, and gone before the load has come to it."""
    it = loading(delete_retention_ms=10 * HOUR)
    it.load()
    snapshot = it.snapshot(tmp_path / "snapshots")
    it.topic.write(b"later", b'{"plan":"first"}')
    it.later(4 * HOUR)
    if takes_ms == 5 * HOUR:
        assert it.load(lambda: it.later(takes_ms), snapshot) is not None
    else:
        with pytest.raises(Retryable, match=r"missed: what was read first is 32,460 s old"):
            it.load(lambda: it.later(takes_ms), snapshot)
