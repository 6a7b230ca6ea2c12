"""What topics should be like follows from who uses them, and from what people wish."""

from datetime import timedelta

from enrich.admin.topics.wanted import Right, Use, wanted_topics
from enrich.config import load_text

HEAD = "name: plays\nkafka: {bootstrap_servers: 'h:1'}\n"
TABLES = (
    "tables:\n"
    "  users: {topic: users, format: json, columns: 'plan string', history: 1h}\n"
    "  same: {topic: users, format: json, columns: 'plan string', history: 10h}\n"
    "  any: {topic: old, format: string, compaction: any}\n"
)
STAGES = (
    "stages:\n  enrich:\n    source: {topic: raw, format: string}\n    sink: {topic: out}\n    dlq: dead\n"
    "    lookups: [{table: users, key: value, as: user}]\n"
    "    writeback: {topic: seen, value: value}\n"
)


def wanted(wishes=""):
    return wanted_topics(load_text(f"{HEAD}{TABLES}{STAGES}{wishes}", {}))


def milliseconds(**duration):
    return str(timedelta(**duration) // timedelta(milliseconds=1))


def test_each_topic_gets_the_policy_and_the_rights_of_its_use():
    topics = wanted()
    uses = {name: topic.use for name, topic in topics.items()}
    assert uses == {
        "users": Use.table,
        "old": Use.table,
        "raw": Use.events,
        "out": Use.events,
        "dead": Use.letters,
        "seen": Use.rows,
    }
    policies = {name: topic.settings.get("cleanup.policy") for name, topic in topics.items()}
    compacted = dict.fromkeys(("users", "dead", "seen"), "compact")
    assert policies == {**compacted, "raw": "delete", "out": "delete", "old": None}  # any: as it is
    assert topics["raw"].rights == {Right.read, Right.describe, Right.describe_configs}
    assert topics["out"].rights == {Right.write, Right.describe, Right.describe_configs}  # how large a record it takes


def test_the_longest_history_of_a_topic_and_a_margin_are_kept():
    settings = wanted()["users"].settings
    assert settings["min.compaction.lag.ms"] == milliseconds(hours=11)
    assert int(settings["max.compaction.lag.ms"]) >= int(settings["min.compaction.lag.ms"])
    assert settings["delete.retention.ms"] == milliseconds(days=2)


def test_wishes_for_a_topic_come_before_those_for_all():
    topics = wanted(
        "topics:\n  '*': {partitions: 8, downtime: 3d, replication: 3}\n"
        "  users: {partitions: 2, staleness: 1h, size: 100GiB, cleanup: 'compact,delete', retention: 30d}\n"
        "  raw: {retention: 7d, min_insync_replicas: 1}\n"
    )
    users, raw = topics["users"], topics["raw"]
    assert (users.wishes.partitions, users.wishes.downtime, topics["out"].wishes.partitions) == (
        2,
        timedelta(days=3),
        8,
    )
    assert users.settings["cleanup.policy"] == "compact,delete"
    assert users.settings["retention.ms"] == milliseconds(days=30)
    assert users.settings["min.cleanable.dirty.ratio"] == "0.1"
    assert users.settings["segment.bytes"] == str(1 << 30)
    assert (users.settings["min.insync.replicas"], raw.settings["min.insync.replicas"]) == ("2", "1")
    assert raw.settings["retention.ms"] == milliseconds(days=7)
    assert "retention.ms" not in topics["dead"].settings


def test_retry_topics_of_a_write_back_route_are_wanted_each_once_and_for_reading_and_writing():
    route = (
        "sync:\n  writeback:\n    out: {topic: users, format: string, retries: [30s, 1m, 30s],"
        " to: {redis: {url: 'redis://cache:6379/0', key: 'u:{key}'}}}\n"
    )
    retries = {name: topic for name, topic in wanted(route).items() if ".retry." in name}
    assert [name.partition(".retry.")[2] for name in retries] == ["1m", "30s", "30s.2"]
    assert all({"READ", "WRITE"} <= {right.value for right in topic.rights} for topic in retries.values())
    assert {topic.settings["cleanup.policy"] for topic in retries.values()} == {"delete"}
