"""Whether an event that was traced is delivered: at the end of each way that it took."""

import json

import pytest

from enrich.admin.observing import is_delivered
from enrich.config import load_text
from tests.unit.observe.test_ways import KAFKA, STAGE, expel, ingest

ROUTES = [{"name": "acme", "topic": "out.acme"}, {"name": "globex", "topic": "out.globex"}]
PIPELINE = load_text(
    json.dumps(
        {
            "name": "p",
            "kafka": KAFKA,
            "ingest": {"plays": ingest("plays.raw")},
            "stages": {"prepare": {**STAGE, "routes": ROUTES}},
            "expel": {"acme": expel("out.acme"), "globex": expel("out.globex")},
        }
    )
)
CAME = [("ingest plays", "", "went")]
ONE = [*CAME, ("stage prepare", "acme", "went")]
BOTH = [*ONE, ("stage prepare", "globex", "went")]


@pytest.mark.parametrize(
    ("steps", "delivered"),
    [
        ([], False),
        (CAME, False),
        ([*CAME, ("stage prepare", "", "dropped")], True),
        ([*CAME, ("stage prepare", "", "dead")], False),
        ([*CAME, ("stage prepare", "", "came")], False),
        (ONE, False),
        ([*ONE, ("expel acme", "", "went")], True),
        (
            [*ONE, ("expel acme", "", "waiting"), ("retrier acme", "", "went")],
            False,
        ),
        ([*ONE, ("expel acme", "", "dead"), ("retrier acme", "", "went")], False),
        ([*BOTH, ("expel acme", "", "went")], False),
        ([*BOTH, ("expel acme", "", "went"), ("expel globex", "", "dead")], False),
        ([*BOTH, ("expel acme", "", "went"), ("expel globex", "", "went"), ("retrier acme", "", "went")], True),
    ],
)
def test_an_event_is_delivered_if_it_is_at_the_end_of_each_way_that_it_took(steps, delivered):
    found = [{"node": node, "route": route, "what": what} for node, route, what in steps]
    assert is_delivered(PIPELINE, found) is delivered
