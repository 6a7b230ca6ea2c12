"""Uses the HTTP client of expel in tests."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from enrich.config.sections.edges.expel import HttpEndpoint
from enrich.endpoints.http import Answer, HttpClient, NoAnswer, Resolve
from tests.support.servers.scripted_endpoint import ScriptedEndpoint
from tests.support.waiting import GUARD_S

WHERE = "expel.acme"


@asynccontextmanager
async def client_of(
    url: str, most_connections: int = 4, resolve: Resolve | None = None, **settings: Any
) -> AsyncIterator[HttpClient]:
    """If not said otherwise, local addresses are allowed."""
    endpoint = HttpEndpoint.model_validate({"url": url, "allow_private": True, "timeout": "30s", **settings})
    client = HttpClient(endpoint, most_connections, WHERE, **({} if resolve is None else {"resolve": resolve}))
    try:
        yield client
    finally:
        await client.close()


async def outcome(
    client: HttpClient, body: bytes = b"{}", headers: Mapping[str, str] | None = None
) -> Answer | NoAnswer:
    try:
        return await client.post(body, {"content-type": "application/json"} if headers is None else headers)
    except NoAnswer as error:
        return error


def posted(
    endpoint: ScriptedEndpoint,
    *bodies: bytes,
    host: str = "127.0.0.1",
    headers: Mapping[str, str] | None = None,
    **settings: Any,
) -> list[Any]:
    """What becomes of these bodies, sent one after the other."""

    async def post() -> list[Any]:
        async with client_of(endpoint.url(host), **settings) as client:
            return [await outcome(client, body, headers) for body in bodies]

    return uvloop.run(post())


async def until(condition: Callable[[], object]) -> None:
    """The same as `wait_until`, while a loop goes on."""
    end = time.monotonic() + GUARD_S
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)  # the poll's rhythm
