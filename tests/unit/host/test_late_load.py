"""A load that is done, and is taken by the agent's loop a long time later."""

import random

import pyarrow as pa
import pytest

from enrich.host.follow.topic_keeper import TopicKeeper
from enrich.host.load.loading import Listener, Order, load_from
from enrich.kafka import TopicSettings
from stores.rocks import RocksStore
from stores.rocks.read.view import RocksTable
from stores.table import Status
from tests.support.host.agents import plans_table
from tests.support.kafka.model_topic import AtOnce, ModelSource, ModelTailer, ModelTopic, World, answer_of

HOUR = 3_600_000
LISTENER = Listener(lambda _: None, lambda _: None, lambda: False)


class Agent:
    """Its loop, a turn at a time, over a topic that is cleaned as soon as Kafka allows."""

    def __init__(self, folder):
        self.world = World()
        settings = TopicSettings(
            frozenset({"compact"}), delete_retention_ms=HOUR, min_compaction_lag_ms=120_000, segment_ms=1_000
        )
        self.topic = ModelTopic(self.world, settings, random.Random(1), 1)
        table = plans_table(ModelTopic.name, history_ms=24 * HOUR)
        self.spec = table.spec
        self.store = RocksStore(folder, {"users": table.spec}, self.world.clocks.wall)
        self.tailer = ModelTailer(self.topic)

        def load(table, answer, tell, chosen):
            source = ModelSource(self.topic, lambda: None)
            return load_from(source, self.store, Order(table, answer, {}, chosen), LISTENER, self.world.clocks)

        threads = AtOnce(), AtOnce()
        self.keeper = TopicKeeper(table, self.store, self.tailer, load, *threads, self.world.clocks)  # type: ignore[arg-type] # the model's tailer

    def turn(self):
        self.keeper.step()
        update = self.keeper.update(self.tailer.poll(100))
        if update is not None:
            self.store.publish({"users": update})
        self.keeper.state()

    def status_at_the_end(self, key):
        """Of the look-up that sees exactly what the store says that it has read."""
        table = self.store.tables["users"]
        view = RocksTable(self.spec, table, lambda: self.store._database)
        found = view.lookup(pa.array([key]), ["plan"], pin=dict(view.positions))
        return Status(found.status[0].as_py())


@pytest.fixture
def agent(tmp_path):
    agent = Agent(tmp_path / "rows")
    yield agent
    agent.store.close()


def test_a_tombstone_that_came_and_went_before_a_load_was_taken_is_not_passed_over(agent):
    agent.topic.write(b"bob", b'{"plan":"free"}')
    agent.keeper.hear(answer_of(agent.topic, lambda: None))
    agent.keeper.step()  # the load runs, and is done
    agent.topic.write(b"bob", None)
    agent.topic.write(b"ann", b'{"plan":"free"}')
    for _ in range(10):  # meanwhile the loop stands still
        agent.world.now_ms += HOUR
        agent.topic.clean()
    agent.topic.write(b"ann", b'{"plan":"pro"}')  # young enough to prove that everything from here on is whole
    assert {version.key for version in agent.topic.from_(0, 0, 10)} == {b"ann"}
    agent.keeper.step()
    loaded = dict(agent.store.tables["users"].positions)
    for _ in range(3):
        agent.turn()
        assert agent.status_at_the_end(b"bob") != Status.HIT or agent.store.tables["users"].positions == loaded
        agent.keeper.hear(answer_of(agent.topic, lambda: None))
    assert agent.status_at_the_end(b"ann") == Status.HIT
    assert agent.status_at_the_end(b"bob") == Status.MISS
