"""A host's rows under the pin of a batch: every host that has them gives the same answers, statuses included."""

import random
from contextlib import ExitStack

import pyarrow as pa
import pytest

from enrich.config import OnStale, Then
from enrich.host.load.loading import Listener, Order, load_from
from enrich.kafka import TopicSettings
from enrich.stage.task.freshness import FreshnessRule
from enrich.stage.task.pin import Pin, PinnedTable
from enrich.stage.worker.pinned import pinned
from stores.rocks import RocksReader, RocksStore
from stores.table import TIMESTAMP
from tests.contract.stores.store_under_test import find
from tests.support.host.agents import plans_table
from tests.support.kafka.model_topic import ModelSource, ModelTopic, World, answer_of

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
LISTENER = Listener(lambda _: None, lambda _: None, lambda: False)
RULE = FreshnessRule("users", 1.0, None, OnStale.mark, Then.mark, HOUR)
TABLE = plans_table(ModelTopic.name, history_ms=HOUR)
KEYS = ["gone", "just-gone", "there", "nobody"]


class Hosts:
    def __init__(self, folder, held: ExitStack) -> None:
        self.world = World()
        settings = TopicSettings(
            frozenset({"compact"}), delete_retention_ms=3 * MINUTE, min_compaction_lag_ms=80 * MINUTE
        )
        self.topic = ModelTopic(self.world, settings, random.Random(1), 1)
        self._folder = folder
        self._held = held

    def loaded(self, name: str) -> RocksReader:
        """A host that loads the table now."""
        store = RocksStore(self._folder / name, {"users": TABLE.spec}, self.world.clocks.wall)
        self._held.callback(store.close)
        order = Order(TABLE, answer_of(self.topic, lambda: None), {})
        load_from(ModelSource(self.topic, lambda: None), store, order, LISTENER, self.world.clocks)
        reader = RocksReader(self._folder / name, {"users": TABLE.spec})
        self._held.callback(reader.close)
        return reader

    def pin(self) -> Pin:
        return Pin(self.world.now_ms, {"users": PinnedTable(self.topic.now.topic_id, self.topic.ends())})


@pytest.fixture
def hosts(tmp_path):
    with ExitStack() as held:
        yield Hosts(tmp_path, held)


def test_a_deleted_key_is_the_same_to_a_host_that_never_heard_of_it(hosts):
    world, topic = hosts.world, hosts.topic
    for key in (b"gone", b"just-gone", b"there"):
        topic.write(key, b'{"plan":"free"}')
    topic.write(b"gone", None)
    topic.write(b"other", b'{"plan":"free"}')
    world.now_ms += DAY
    topic.write(b"just-gone", None)
    older = hosts.loaded("older")
    for _ in range(6):  # the cleaner does not come to everything each time
        topic.clean()
        world.now_ms += 4 * MINUTE
    younger = hosts.loaded("younger")
    pin, times = hosts.pin(), pa.array([world.now_ms] * len(KEYS), TIMESTAMP)
    views = [pinned(reader.snapshot().table("users"), RULE, pin) for reader in (older, younger)]
    assert find(views[0].view, pa.array(KEYS)) != find(views[1].view, pa.array(KEYS))
    for options in ({}, {"as_of": times}):
        first, again = (find(view, pa.array(KEYS), **options) for view in views)
        assert first == again
        assert [answer.status.name for answer in first] == ["MISS", "DELETED", "HIT", "MISS"]
