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
