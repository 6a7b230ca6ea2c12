"""What a load makes of a topic that goes on while it is read."""

import random

import pytest

from enrich.base.errors import Retryable
from enrich.host.load.loading import Listener, Order, load_from
from enrich.kafka import TopicSettings
from stores.rocks import RocksStore
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

    def load(self, during=lambda: None):
        left = [during]
        source = ModelSource(self.topic, lambda: left.pop()() if left else None)
        order = Order(self.table, answer_of(self.topic, lambda: None), {})
        return load_from(source, self.store, order, LISTENER, self.world.clocks)

    def later(self, milliseconds):
        self.world.now_ms += milliseconds


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
