"""Which topics an audit reads, and what a record in each of them shows."""

import pytest

from enrich.audit.evidence import Mark, evidence_of
from enrich.config import Pipeline
from enrich.verdict.ways import ways_of

EVENTS = {"format": "json", "schema": "id bigint"}
STAGES = {
    "one": {
        "source": {"topic_pattern": "raw[.].*", **EVENTS},
        "routes": [{"name": "a", "topic": "out.a"}, {"name": "b", "topic": "out.b"}],
        "otherwise": "drop",
        "dlq": "one.dlq",
    }
}
EXPEL = {"e": {"topic": "out.a", "to": {"http": {"url": "http://x.example/"}}, "retries": ["30s", "5m"]}}
REDIS = {"redis": {"url": "redis://h", "key": "k:{id}"}}
BACK = {"b": {"topic": "out.b", "format": "json", "columns": "id bigint", "to": REDIS}}


def pipeline() -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "kafka": {"bootstrap_servers": "h:9092"},
            "stages": STAGES,
            "expel": EXPEL,
            "sync": {"writeback": BACK},
        }
    )


def test_topics_and_groups_of_each_way() -> None:
    found = pipeline()
    expel, back = evidence_of(found, ways_of(found), ["raw.x", "raw.y", "out.a", "other"])
    assert expel.entries == back.entries == [Mark("raw.x"), Mark("raw.y")]
    stage, last = expel.hops
    assert (stage.went, stage.elsewhere) == ([Mark("out.a")], [Mark("out.b")])
    assert stage.dead == [Mark("one.dlq", sent_by="p.one")]
    assert stage.waiting == [Mark("raw.x", "enrich.p.one"), Mark("raw.y", "enrich.p.one")]
    assert (last.went, last.dead) == ([], [Mark("p.e.dlq", sent_by="p.expel.e")])
    assert back.hops[-1].dead == [Mark("p.b.dlq", sent_by="p.sync.b")]
    assert last.waiting == [
        Mark("out.a", "enrich.expel.p.e"),
        Mark("p.e.retry_in.30s", "enrich.retrier.p.e"),
        Mark("p.e.retry_in.5m", "enrich.retrier.p.e"),
        Mark("p.e.retry_out", "enrich.expel.p.e"),
    ]


def test_groups_are_those_that_programs_use() -> None:
    from edge_service.expel.plan import ExpelPlan
    from sync_service.writeback.plan import plans_of

    found = pipeline()
    _, back = evidence_of(found, ways_of(found), ["raw.x"])
    (plan,) = plans_of(found)
    groups = {(topic, plan.group_of(topic)) for topic, _ in plan.retry_topics} | {("out.b", plan.group)}
    assert {(mark.topic, mark.unread_by) for mark in back.hops[-1].waiting} == groups
    from pathlib import Path

    expel = ExpelPlan("p", "e", found.expel["e"], Path("/"))
    assert (expel.group, expel.retrier_group) == ("enrich.expel.p.e", "enrich.retrier.p.e")


@pytest.mark.parametrize("names", [[], ["other"]])
def test_without_a_topic_nothing_comes_in(names: list[str]) -> None:
    found = pipeline()
    assert all(not evidence.entries for evidence in evidence_of(found, ways_of(found), names))
