"""A host's rows under the pin of a batch: every host that has them gives the same answers, statuses included."""

import random
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa
import pytest

from enrich.config import OnStale, Then
from enrich.host.load.loading import Listener, Order, load_from
from enrich.host.tables import TopicTable
from enrich.kafka import TopicSettings
from enrich.stage.task.freshness import FreshnessRule
from enrich.stage.task.pin import Pin, PinnedTable
from enrich.stage.worker.pinned import pinned
from stores.protocol import KeyKind
from stores.rocks import RocksReader, RocksStore
from stores.table import TIMESTAMP
from tests.contract.stores.store_under_test import find
from tests.support.host.agents import plans_table
from tests.support.kafka.model_topic import ModelSource, ModelTopic, World, answer_of

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
LISTENER = Listener(lambda _: None, lambda _: None, lambda: False)
RULE = FreshnessRule("users", 1.0, None, OnStale.mark, Then.mark, HOUR)
TABLE = plans_table(ModelTopic.name, history_ms=HOUR)
NETWORKS = replace(TABLE, spec=replace(TABLE.spec, key=KeyKind.CIDR))
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

    def loaded(self, name: str, table: TopicTable = TABLE) -> RocksReader:
        """A host that loads the table now."""
        store = RocksStore(self._folder / name, {"users": table.spec}, self.world.clocks.wall)
        self._held.callback(store.close)
        order = Order(table, answer_of(self.topic, lambda: None), {})
        load_from(ModelSource(self.topic, lambda: None), store, order, LISTENER, self.world.clocks)
        reader = RocksReader(self._folder / name, {"users": table.spec})
        self._held.callback(reader.close)
        return reader

    def forgets(self) -> None:
        """The topic forgets what it may; its cleaner does not come to everything each time."""
        for _ in range(6):
            self.topic.clean()
            self.world.now_ms += 4 * MINUTE

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
    hosts.forgets()
    younger = hosts.loaded("younger")
    pin, times = hosts.pin(), pa.array([world.now_ms] * len(KEYS), TIMESTAMP)
    views = [pinned(reader.snapshot().table("users"), RULE, pin) for reader in (older, younger)]
    assert find(views[0].view, pa.array(KEYS)) != find(views[1].view, pa.array(KEYS))
    for options in ({}, {"as_of": times}):
        first, again = (find(view, pa.array(KEYS), **options) for view in views)
        assert first == again
        assert [answer.status.name for answer in first] == ["MISS", "DELETED", "HIT", "MISS"]


def test_a_deleted_network_is_the_same_to_a_host_that_never_heard_of_a_longer_one_in_it(hosts):
    world, topic = hosts.world, hosts.topic
    for network in (b"10.0.0.0/8", b"10.1.0.0/16", b"11.0.0.0/8"):
        topic.write(network, b'{"plan":"free"}')
    topic.write(b"10.1.0.0/16", None)
    topic.write(b"12.0.0.0/8", b'{"plan":"free"}')
    world.now_ms += DAY
    topic.write(b"10.0.0.0/8", None)
    older = hosts.loaded("older", NETWORKS)
    hosts.forgets()
    younger = hosts.loaded("younger", NETWORKS)
    pin, keys, rule = hosts.pin(), pa.array(["10.1.2.3", "10.9.9.9", "11.1.1.1"]), replace(RULE, has_networks=True)
    views = [pinned(reader.snapshot().table("users"), rule, pin) for reader in (older, younger)]
    assert find(views[0].view, keys) != find(views[1].view, keys)
    first, again = (find(view, keys) for view in views)
    assert first == again
