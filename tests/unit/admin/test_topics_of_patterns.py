"""Topics that a stage finds by a pattern: known to `enrich topics`, and not its to change."""

from enrich.admin.topics.uses import READS, Right
from enrich.admin.topics.wanted import wanted_topics
from enrich.config import load_text

HEAD = (
    "name: plays\nkafka: {bootstrap_servers: 'h:1'}\n"
    "stages: {s: {source: {topic_pattern: 'raw\\..*', format: string}, sink: {topic: out}}}\n"
    "topics:\n  '*': {partitions: 7, retention: 1d}\n"
)
EXISTING = ["raw.a", "raw.b", "other"]


def wanted(more=""):
    return wanted_topics(load_text(f"{HEAD}{more}", {}), EXISTING)


def test_topics_that_match_are_known_with_their_rights_but_nothing_of_them_is_changed():
    topics = wanted()
    assert set(topics) == {"raw.a", "raw.b", "out"}
    found = topics["raw.a"]
    assert (found.rights, found.used_by) == (READS, ("source of stage s",))
    assert (found.settings, found.wishes.partitions, found.format) == ({}, None, None)
    assert topics["out"].wishes.partitions == 7


def test_what_is_named_elsewhere_is_set_as_it_is_there():
    topics = wanted("  raw.a: {partitions: 3}\ningest: {i: {topic: raw.b, path: /i, format: json}}\n")
    assert topics["raw.a"].wishes.partitions == 3
    assert topics["raw.a"].settings["cleanup.policy"] == "delete"
    assert topics["raw.b"].wishes.partitions == 7
    assert topics["raw.b"].rights >= {Right.read, Right.write}


def test_topics_of_tables_are_those_that_their_source_has_made_and_not_all_with_such_a_name():
    origin = "{postgres: {dsn: 'postgresql://h/d', tables: ['app.*'], follow: log}}"
    source = f"sync: {{sources: {{bank: {{topic: '{{schema}}.{{table}}', format: json, from: {origin}}}}}}}\n"
    pipeline = load_text(f"{HEAD}{source}", {})
    assert "raw.a" in wanted_topics(pipeline, EXISTING)
    topics = wanted_topics(pipeline, [*EXISTING, "other.events"], {"bank": ["app.users"]})
    assert set(topics) == {"raw.a", "raw.b", "out", "plays.bank.tables", "app.users"}
    assert (topics["app.users"].settings["cleanup.policy"], topics["raw.a"].settings) == ("compact", {})
