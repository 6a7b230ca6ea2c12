"""A producer that has met an error it cannot get over is replaced: no route ends, and nothing is lost."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from enrich.dev import Addresses
from enrich.kafka.writing import delivering, transactions
from tests.support.kafka.fatal import make_fatal
from tests.support.sync.service import SyncWorld, running
from tests.support.sync.sources import SourceWorld
from tests.support.waiting import wait_until

Made = Callable[[Any], list[Producer]]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Collects the producers that a module makes from now on."""

    def collected(module: Any) -> list[Producer]:
        producers: list[Producer] = []
        new_producer = module.new_producer

        def noted(*arguments: Any, **settings: Any) -> Producer:
            producers.append(new_producer(*arguments, **settings))
            return producers[-1]

        monkeypatch.setattr(module, "new_producer", noted)
        return producers

    return collected


def test_dead_letters_of_write_back_go_on_by_a_new_producer(world: SyncWorld, made: Made) -> None:
    world.make_topic(partitions=1)
    producers = made(delivering)
    with running(world.pipeline(world.to_redis())):
        for number in range(3):
            world.cluster.produce(world.topic, [(b"bad", b"no JSON")])
            world.produce((f"k{number}", {"plan": "p", "rps": number}))
            wait_until(lambda: len(world.dead_letters(number + 1)) == number + 1, what="a dead letter")  # noqa: B023 - at once
            wait_until(lambda: world.redis.exists(f"{world.name}:k{number}"), what="its neighbour")  # noqa: B023
            make_fatal(producers[-1])


@pytest.mark.parametrize("follow", ["asked", "log"])
def test_a_source_goes_on_by_a_new_producer(servers: Addresses, tmp_path: Path, made: Made, follow: str) -> None:
    with ExitStack() as held:
        source = SourceWorld(servers, tmp_path, held)
        source.make_topic(partitions=1)
        source.make_table(rows=3)
        if follow == "log":
            source.origin["postgres"]["follow"] = "log"
            held.callback(drop_slot, source)
        producers = made(transactions)
        with source.running():
            for number in range(3):
                source.change(1, f"after {number}")
                wait_until(lambda: f"after {number}" in str(source.in_topic()), what="the change")  # noqa: B023 - at once
                make_fatal(producers[-1])


def drop_slot(source: SourceWorld) -> None:
    slots = "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE %s AND NOT active"
    wait_until(lambda: source.execute(slots, f"%{source.name}%").fetchall(), what="a slot that nobody uses")
    source.execute(f"SELECT pg_drop_replication_slot(slot_name) FROM ({slots}) q", f"%{source.name}%")  # noqa: S608 - ours
