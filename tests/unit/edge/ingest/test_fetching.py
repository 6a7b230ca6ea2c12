"""While a registry hangs or is away, requests that need it wait in vain, within bounds."""

import asyncio
import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from edge_service.ingest.entry.committing import Writer
from edge_service.ingest.entry.endpoint import EndpointPlan, IngestEndpoint
from edge_service.ingest.entry.fetching import Fetching
from edge_service.ingest.reading.events import Events
from edge_service.ingest.reading.formats import FetchFirst
from edge_service.ingest.wire.connection import Answer, Request
from enrich.base.errors import Unreachable
from tests.support.waiting import GUARD_S

SAID_LATE = "the registry does not answer in time"


class Registry:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.error: Unreachable | None = None
        self.answers = threading.Event()

    def fetch(self, what: int) -> None:
        self.asked[what] += 1
        self.answers.wait(GUARD_S)
        if self.error is not None:
            raise self.error


class Body:
    """Of a request."""

    def read(self, said: list[str | None], why: str | None) -> None:
        said.append(why)


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry()
    yield registry
    registry.answers.set()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(GUARD_S):
        while not condition():
            await asyncio.sleep(0.005)  # the poll's rhythm


def test_what_many_wait_for_is_asked_for_once_and_a_body_that_waits_no_longer_is_not_kept(registry: Registry) -> None:
    async def run() -> None:
        fetching, said = Fetching(registry.fetch, asyncio.get_running_loop()), list[str | None]()
        bodies = [Body() for _ in range(100)]
        kept = [weakref.ref(body) for body in bodies]
        for body in bodies:
            fetching.wait_for(7, partial(body.read, said), 0.01)
        bodies.clear()
        del body
        await until(lambda: len(said) == 100)
        assert set(said) == {SAID_LATE}
        gc.collect()
        assert not any(one() for one in kept)
        fetching.wait_for(7, said.append, GUARD_S)
        registry.answers.set()
        await until(lambda: len(said) == 101)
        assert said[-1] is None

    asyncio.run(run())
    assert registry.asked == {7: 1}


class Framed:
    """Bodies that need something that is not there."""

    types: tuple[bytes, ...] = (b"avro/binary",)

    def __init__(self, registry: Registry) -> None:
        self.fetch = registry.fetch

    def read(self, body: bytes, kind: bytes) -> Events:  # noqa: ARG002 - the interface's
        raise FetchFirst(7)


def test_requests_of_an_entry_that_need_the_same_are_503_in_time_and_ask_for_it_once(registry: Registry) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        plan = EndpointPlan("/", "t", None, None, (), 100, 100, 10, 10_000, 1.0, 0.05)
        writer = Writer({"bootstrap.servers": "127.0.0.1:1"}, loop, 1.0)
        endpoint, answers = IngestEndpoint(plan, writer, loop, bodies=Framed(registry)), list[Answer]()
        for _ in range(50):
            request = Request("POST", "/", {b"content-type": b"avro/binary"}, b"1")
            endpoint.take(request, answers.append)
        await until(lambda: len(answers) == 50)
        assert {answer.status for answer in answers} == {503}
        registry.answers.set()
        await until(lambda: not endpoint._fetching._waiting)

    asyncio.run(run())
    assert registry.asked == {7: 1}


def test_no_more_than_sixteen_things_are_asked_for_at_once(registry: Registry) -> None:
    async def run() -> None:
        fetching, said = Fetching(registry.fetch, asyncio.get_running_loop()), list[str | None]()
        for what in range(1_000):
            fetching.wait_for(what, said.append, GUARD_S)
        assert said == ["the registry is asked for too much at once"] * 984
        registry.answers.set()
        await until(lambda: len(said) == 1_000)
        assert said[984:] == [None] * 16

    asyncio.run(run())
    assert set(registry.asked) == set(range(16))


def test_a_registry_that_could_not_be_reached_is_left_alone_for_a_moment(registry: Registry) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        fetching, said = Fetching(registry.fetch, loop), list[str | None]()
        registry.error = Unreachable("nobody answers", where="registry")
        registry.answers.set()
        fetching.wait_for(1, said.append, GUARD_S)
        await until(lambda: said)
        for what in range(100):
            fetching.wait_for(what, said.append, GUARD_S)
        assert said == ["nobody answers"] * 101
        registry.error = None

        def is_asked_again() -> bool:
            fetching.wait_for(2, said.append, GUARD_S)
            return None in said

        await until(is_asked_again)

    asyncio.run(run())
    assert registry.asked[1] == 1
