"""The ways of a pipeline follow from its topics."""

import json
from typing import Any

from enrich.config import load_text
from enrich.verdict.ways import ways_of

SOURCE: dict[str, Any] = {"topics": ["plays.raw"], "format": "json", "schema": "user_id string"}
STAGE: dict[str, Any] = {"source": SOURCE, "lookups": []}


KAFKA = {"bootstrap_servers": "127.0.0.1:9092"}
REDIS = {"redis": {"url": "redis://127.0.0.1:6379", "key": "user:{key}", "as": "hash"}}


def names(**document: Any) -> list[str]:
    whole = {"name": "p", "kafka": KAFKA, **document}
    return [way.name for way in ways_of(load_text(json.dumps(whole)))]


def ingest(topic: str) -> dict[str, Any]:
    return {"path": f"/{topic}", "topic": topic, "format": "json"}


def expel(topic: str) -> dict[str, Any]:
    return {"topic": topic, "to": {"http": {"url": "https://example.com/in"}}}


def test_a_chain_has_a_way_for_each_route_and_those_who_read_it() -> None:
    routes = [{"name": "acme", "topic": "plays.acme"}, {"name": "kept", "topic": "plays.kept"}]
    prepare = {**STAGE, "source": {**SOURCE, "topics": ["plays.raw", "ads.raw"]}, "routes": routes}
    found = names(
        ingest={"plays": ingest("plays.raw"), "ads": ingest("ads.raw")},
        stages={"prepare": prepare},
        expel={"acme": expel("plays.acme"), "again": expel("plays.acme")},
    )
    assert found == [
        f"{entry} > {rest}"
        for entry in ("plays", "ads")
        for rest in ("prepare.acme > acme", "prepare.acme > again", "prepare.kept")
    ]


def test_where_others_write_the_first_stage_is_where_events_come_in() -> None:
    first = {**STAGE, "sink": {"topic": "middle"}}
    second = {**STAGE, "source": {**SOURCE, "topics": ["middle"]}, "sink": {"topic": "out"}}
    assert names(stages={"first": first, "second": second}) == ["first > second"]
    assert names(expel={"acme": expel("theirs")}) == ["acme"]


def test_a_stage_that_reads_what_others_write_beside_what_comes_from_ingest_is_an_entry_for_that() -> None:
    stage = {**STAGE, "source": {**SOURCE, "topics": ["plays.raw", "theirs"]}, "sink": {"topic": "out"}}
    whole = {"ingest": {"plays": ingest("plays.raw")}, "stages": {"prepare": stage}, "expel": {"acme": expel("out")}}
    assert names(**whole) == ["plays > prepare > acme", "prepare > acme"]
    of_ingest, own = ways_of(load_text(json.dumps({"name": "p", "kafka": KAFKA, **whole})))
    assert (of_ingest.topics, own.topic, own.topics) == (None, None, ["theirs"])


def test_a_pattern_reads_what_matches_it() -> None:
    pattern = {"topic_pattern": "plays[.].*", "format": "json", "schema": "user_id string"}
    stage = {**STAGE, "source": pattern, "sink": {"topic": "out"}}
    assert names(ingest={"plays": ingest("plays.raw")}, stages={"one": stage}) == ["plays > one"]


def test_ways_of_nodes_with_the_same_names_have_names_of_their_own() -> None:
    """Else the verdicts on one would stand for the other, which nobody would judge."""
    whole: dict[str, Any] = {
        "ingest": {"plays": ingest("plays.raw")},
        "expel": {"acme": expel("plays.raw"), "other": expel("plays.raw")},
        "sync": {"writeback": {"acme": {"topic": "plays.raw", "format": "json", "columns": "id string", "to": REDIS}}},
    }
    assert names(**whole) == [
        "ingest plays > expel acme",
        "plays > other",
        "ingest plays > write-back acme",
    ]
