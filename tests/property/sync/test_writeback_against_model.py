"""A random life of a route: versions and releases in any order, duplicates, tombstones, restarts, a topic that is
recreated. The stores equal a model that takes one record after the other and keeps the newest."""

import json
import random
from typing import Any

import pytest

from enrich.kafka import DeliveringProducer
from sync_service.reconcile import Reconciliation
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients
from tests.support.seed import random_source, rounds
from tests.support.sync.service import Running, SyncWorld, running
from tests.support.waiting import wait_until

_STEPS = 12
_OFFSETS = 2**40

Row = tuple[int, Any, Any]


class Model:
    """The newest version of every key, and of this the highest release; None for a deleted one."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[tuple[int, int], dict[str, Any] | None]] = {}

    def take(self, key: str, version: int, row: dict[str, Any] | None, release: int = 0) -> None:
        if key not in self.rows or (version, release) > self.rows[key][0]:
            self.rows[key] = ((version, release), row)

    def living(self) -> dict[str, Row]:
        found = self.rows.items()
        return {key: (version, row["plan"], row["rps"]) for key, ((version, _), row) in found if row is not None}


class Life:
    """One topic under way, with what was produced to it so far."""

    def __init__(
        self, world: SyncWorld, to: dict[str, Any], source: random.Random, *, by_header: bool, releases: list[int]
    ) -> None:
        self.world = world
        self.to = to
        self.source = source
        self.by_header = by_header
        self.releases = releases
        self.model = Model()
        self.generation = 1
        self.produced = 0

    def produce(self) -> None:
        """Records of one batch, some of them twice."""
        source = self.source
        records = []
        for _ in range(source.randint(1, 60)):
            row = None if source.random() < 0.25 else {"plan": source.choice(["a", "b", None]), "rps": self.produced}
            version = source.randint(1, 500 if self.releases == [0] else 20)  # so that many are equal
            records.append((f"k{source.randint(0, 25)}", version, row, source.choice(self.releases)))
        if self.by_header:
            records += source.sample(records, len(records) // 4)
            source.shuffle(records)
        with DeliveringProducer(self.world.cluster.connection) as producer:
            for key, version, row, release in records:
                headers = {"enrich.version": str(version).encode()} if self.by_header else {}
                headers |= {"enrich.release": str(release).encode()} if release else {}
                value = None if row is None else json.dumps(row).encode()
                producer.produce(self.world.topic, key.encode(), value, headers=headers)
        if self.by_header:
            for key, version, row, release in records:
                self.model.take(key, version, row, release)
        self.produced += len(records)

    def read_model(self) -> None:
        """Where offsets are versions, the topic itself says them."""
        if self.by_header:
            return
        self.model = Model()
        for message in self.world.cluster.messages(self.world.topic):
            value = message.value()
            row = None if value is None else json.loads(value)
            version = self.generation * _OFFSETS + (message.offset() or 0)
            self.model.take(str(message.key() or b"", "utf-8"), version, row)

    def make_again(self, service: Running) -> None:
        """Another topic of the same name, taken up by a repair: its rows are of the generation in between."""
        world = self.world
        world.cluster.topics.delete(world.topic)
        wait_until(lambda: not world.cluster.topics.exists(world.topic))
        world.make_topic(partitions=3)
        self.model = Model()
        self.produce()
        wait_until(lambda: service.status().state == "held", what="the route to be held")
        self.repair()
        wait_until(lambda: service.status().state == "running", what="the route to go on")

    def repair(self) -> None:
        pipeline = self.world.pipeline(self.to)
        assert Reconciliation(plans_of(pipeline)[0], Clients(pipeline)).run(repair=True, yes=True).agrees


@pytest.mark.parametrize("number", range(rounds(1, 25)))
@pytest.mark.parametrize("by", ["header", "offset", "header_and_release", "offset_and_release"])
@pytest.mark.parametrize("store", ["redis", "postgres", "postgres_hard"])
def test_the_store_equals_the_model(world: SyncWorld, store: str, by: str, number: int) -> None:
    source, released = random_source(f"life/{store}/{by}/{number}"), by.endswith("release")
    world.make_topic()
    to = world.to_redis()
    if store != "redis":
        world.make_table(soft=store == "postgres", released=released)
        more = {"release_column": "release"} if released else {}
        to = world.to_postgres(**more, **({} if store == "postgres" else {"delete": "hard"}))
    life = Life(world, to, source, by_header=by.startswith("header"), releases=[0, 0, 1, 7] if released else [0])
    for step in range(_STEPS // 4):
        with running(world.pipeline(to)):
            for _ in range(4):
                life.produce()
            if step % 2:
                continue  # stopped before it has written all
            life.read_model()
            wait_until(lambda: world.everything() == life.model.living(), what="the store as the model")
    with running(world.pipeline(to)) as service:
        life.read_model()
        wait_until(lambda: world.everything() == life.model.living(), what="the store as the model")
        # Nothing is left to write, so that the store says nothing of whether the route has begun.
        wait_until(lambda: service.status().last_progress_ms is not None, what="the route's partitions")
        life.make_again(service)
        rows = {key: row[1:] for key, row in world.everything().items()}
        life.read_model()
        assert rows == {key: row[1:] for key, row in life.model.living().items()}
