"""Pages of an endpoint that does not know how it is asked for the next one."""

import json
from contextlib import closing

import pyarrow as pa
import pytest

from enrich.base.errors import Retryable
from enrich.endpoints.pages import Next, PagesReader, Paging, Request
from sync_service.sources.polled.http import HttpSource
from sync_service.sources.polled.source import Progress
from tests.support.servers.scripted_endpoint import ScriptedEndpoint, answers


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
