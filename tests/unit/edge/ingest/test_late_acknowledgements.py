"""Brokers acknowledge a request after its sender was told that nobody knows: with its key it is not written again."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from confluent_kafka import KafkaError, Message

from edge_service.ingest.entry.committing import Writer, Written
from edge_service.ingest.entry.endpoint import EndpointPlan, IngestEndpoint
from edge_service.ingest.wire.connection import Answer, Request
from tests.support.edge.lanes import run_jumping

DEADLINE_S = 3.0


class Late:
    """In the place of a writer: its brokers say something when they are told to."""

    def __init__(self) -> None:
        self.written: list[Written] = []

    def has_room(self, count: int) -> bool:  # noqa: ARG002 - the writer's
        return True

    def write(self, *given: Any) -> None:
        self.written.extend(each for each in given if isinstance(each, Written))

    def say(self, number: int, error: int | None = None) -> None:
        """Of the request with this number."""
        message = Message(topic="t", partition=0, offset=number)
        self.written[number].delivered(None if error is None else KafkaError(error), message)


class Sender:
    def __init__(self) -> None:
        self.brokers = Late()
        loop = asyncio.get_running_loop()
        plan = EndpointPlan("/", "t", None, None, (), 100, 100, 10, 10_000, 1.0, DEADLINE_S)
        self._endpoint = IngestEndpoint(plan, cast("Writer", self.brokers), loop)

    def send(self) -> list[int]:
        """The same request again. Its status is in the list once it is answered."""
        statuses: list[int] = []
        headers = {b"content-type": b"application/json", b"idempotency-key": b"k"}

        def answered(answer: Answer) -> None:
            statuses.append(answer.status)

        self._endpoint.take(Request("POST", "/", headers, b"{}"), answered)
        return statuses


def run(scenario: Callable[[Sender], Coroutine[Any, Any, None]]) -> None:
    async def with_sender() -> None:
        await scenario(Sender())

    run_jumping(with_sender(), "late")


def test_what_is_acknowledged_after_its_503_is_the_answer_to_those_that_repeat_it() -> None:
    async def scenario(sender: Sender) -> None:
        first, also_waits = sender.send(), sender.send()
        await asyncio.sleep(DEADLINE_S + 0.1)
        assert first == also_waits == [503]
        repeat = sender.send()
        assert repeat == []
        sender.brokers.say(0)
        assert repeat == [200]
        assert sender.send() == [200]
        assert len(sender.brokers.written) == 1

    run(scenario)


def test_a_repeat_waits_no_longer_than_others() -> None:
    async def scenario(sender: Sender) -> None:
        sender.send()
        await asyncio.sleep(DEADLINE_S + 0.1)
        repeat = sender.send()
        await asyncio.sleep(DEADLINE_S - 0.1)
        assert repeat == []
        await asyncio.sleep(0.2)
        assert repeat == [503]
        sender.brokers.say(0)
        assert repeat == [503]
        assert sender.send() == [200]

    run(scenario)


def test_what_has_failed_after_its_503_is_written_again() -> None:
    async def scenario(sender: Sender) -> None:
        sender.send()
        await asyncio.sleep(DEADLINE_S + 0.1)
        repeat = sender.send()
        sender.brokers.say(0, KafkaError._MSG_TIMED_OUT)
        assert repeat == [503]
        again = sender.send()
        sender.brokers.say(1)
        assert again == [200]

    run(scenario)
