"""What expel writes to other topics stands there once, however long the brokers stay away."""

import asyncio
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Message

from edge_service.expel.lane.events import Event, Lease
from edge_service.expel.lane.outbox import Outbox
from enrich.delivery.refused.letters import Letters
from enrich.delivery.refused.spill import Spill
from enrich.kafka.identity import ORIGIN, identity_of
from enrich.kafka.records import headers_of, key_of
from tests.support.kafka.topics import Cluster

AWAY_S = 35.0
"""Longer than the outbox waits until it says that events wait."""


def event(number: int, origin: bytes = b"raw/0/1") -> Event:
    value = b"%d" % number
    message = Message(
        topic="route",
        partition=0,
        offset=number,
        key=value,
        value=value,
        headers=[(ORIGIN, origin)],
        timestamp=(1, 1),
    )
    return Event(message, Lease(("route", 0), None), 0.0)


def test_an_event_whose_acknowledgement_is_late_stands_once_in_its_retry_topic(
    cluster: Cluster, tmp_path: Path
) -> None:
    topic = "outbox.retry_in.1s"
    cluster.topics.create(topic, partitions=1)
    written: list[int] = []
    said: list[str | None] = []

    async def until(count: int, deadline_s: float) -> None:
        end = time.monotonic() + deadline_s
        while len(written) < count:
            assert time.monotonic() < end
            await asyncio.sleep(0.01)

    async def run() -> None:
        letters = Letters("acme", 1_000_000, Spill(tmp_path / "letters", lambda: None))
        outbox = Outbox(cluster.connection, [(topic, 1)], "outbox.dlq", letters, "sender", "id")

        def write(number: int) -> None:
            outbox.retry(event(number), 0, 1, lambda: None, lambda _: written.append(number))

        write(0)
        await until(1, 60)
        with cluster.brokers_away():  # the request waits in the broker's socket, and is done when the broker goes on
            write(1)
            await asyncio.sleep(AWAY_S)
            said.append(outbox.trouble)
        await until(2, 120)
        said.append(outbox.trouble)
        write(2)
        await until(3, 60)
        await outbox.close()

    asyncio.run(run())
    during, afterwards = said
    assert during is not None and "no broker has acknowledged it" in during
    assert afterwards is None
    assert cluster.ids(topic) == Counter([0, 1, 2])


def test_an_event_whose_origin_is_none_waits_under_the_place_by_which_it_came(cluster: Cluster, tmp_path: Path) -> None:
    """Else the retrier tells of another event, and this one seems to wait for ever."""
    topic = "outbox.retry_in.2s"
    cluster.topics.create(topic, partitions=1)
    done = list[int]()

    async def run() -> None:
        letters = Letters("acme", 1_000_000, Spill(tmp_path / "letters", lambda: None))
        outbox = Outbox(cluster.connection, [(topic, 1)], "outbox.dlq", letters, "sender", "id")
        for number, origin in enumerate((b"raw/0/1", b"somewhere", b"")):
            outbox.retry(event(number, origin), 0, 1, lambda: None, done.append)
        end = time.monotonic() + 60
        while len(done) < 3:
            assert time.monotonic() < end
            await asyncio.sleep(0.01)
        await outbox.close()

    asyncio.run(run())
    found = {key_of(message): identity_of(headers_of(message))[0] for message in cluster.messages(topic)}
    assert found == {b"0": (b"raw/0", 1), b"1": (b"route/0", 1), b"2": (b"route/0", 2)}
