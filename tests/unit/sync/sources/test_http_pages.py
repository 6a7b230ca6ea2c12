"""Pages of an endpoint that does not know how it is asked for the next one."""

import itertools
import json
from contextlib import closing

import pyarrow as pa
import pytest

from enrich.base.errors import Retryable
from enrich.endpoints.pages import Next, PagesReader, Paging, Request
from sync_service.sources.polled import http
from sync_service.sources.polled.http import HttpSource
from sync_service.sources.polled.source import Progress
from tests.support.servers.scripted_endpoint import ScriptedEndpoint, Talk, answers, whole


@pytest.mark.parametrize("way", [Next.page, Next.offset])
def test_an_endpoint_that_always_sends_the_same_page_is_not_asked_a_million_times(way: Next) -> None:
    with ScriptedEndpoint(answers(200, json.dumps([{"id": 1}, {"id": 2}]).encode())) as endpoint:
        reader = PagesReader(endpoint.url(), Paging(next=way), Request(), where="source s")
        source = HttpSource(reader, ("id",), pa.schema([("id", pa.int64())]))
        with closing(reader), source.ask(Progress(), None) as answer, pytest.raises(Retryable, match="earlier ones"):
            assert answer is not None
            for batch in answer.readings[0].batches:
                assert batch.num_rows in (2, 0)
        assert 3 < len(endpoint.requests) < 30


def test_an_endpoint_that_always_names_another_page_without_rows_is_not_asked_a_million_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_MOST_EMPTY", 20)
    numbers = itertools.count(1)

    def step(talk: Talk) -> bool:
        talk.read()
        number = next(numbers)
        talk.send(whole(200, json.dumps({"items": [], "next": number if number < 100 else None}).encode()))
        return True

    with ScriptedEndpoint(step) as endpoint:
        reader = PagesReader(endpoint.url(), Paging("/items", Next.pointer, "/next", "at"), Request(), where="source s")
        source = HttpSource(reader, ("id",), pa.schema([("id", pa.int64())]))
        with closing(reader), source.ask(Progress(), None) as answer, pytest.raises(Retryable, match="without rows"):
            assert answer is not None
            assert sum(batch.num_rows for batch in answer.readings[0].batches) == 0
    assert 20 < len(endpoint.requests) < 25
