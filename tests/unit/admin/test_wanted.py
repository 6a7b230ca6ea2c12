"""What topics should be like follows from who uses them, and from what people wish."""

from datetime import timedelta

from enrich.admin.topics.uses import READS, Right, Use
from enrich.admin.topics.wanted import made_alike, wanted_topics
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


def test_how_events_are_kept_that_others_write_is_decided_only_where_their_topic_is_made():
    """They may be the changes of a table of another pipeline."""
    topics = wanted()
    assert (topics["raw"].as_made, topics["out"].as_made) == ({"cleanup.policy"}, frozenset())
    assert wanted("ingest:\n  plays: {path: /plays, topic: raw, format: json}\n")["raw"].as_made == frozenset()
    assert wanted("topics: {raw: {cleanup: delete}}\n")["raw"].as_made == frozenset()


def test_who_takes_records_as_bytes_or_text_does_not_say_what_they_are():
    """A topic may be one pipeline's json, and another one's text."""
    entry = "ingest:\n  plays: {path: /plays, topic: new, format: bytes}\n"
    topics = wanted(entry)
    assert (topics["raw"].format, topics["new"].format, topics["out"].format) == (None, None, "json")
    assert wanted(entry.replace("bytes", "json"))["new"].format == "json"
    assert topics["old"].format == "string"  # a table's rows


def test_a_topic_of_keys_to_preload_is_read_and_may_have_any_policy():
    loader = "loader: {http: 'http://h/{key}'}, on_demand: true"
    accounts = f"  accounts: {{{loader}, preload: {{topic: keys}}, columns: 'plan string'}}\n"
    topic = wanted_topics(load_text(f"{HEAD}tables:\n{accounts}", {}))["keys"]
    assert (topic.use, topic.used_by) == (Use.table, ("keys to preload of table accounts",))
    assert (topic.rights, "cleanup.policy" in topic.settings) == (READS, False)


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


EDGES = (
    "ingest:\n  plays: {path: /plays, topic: raw, format: json, invalid: dlq}\n"
    "expel:\n"
    "  acme: {topic: out, to: {http: {url: 'https://example.org'}}, retries: [30s, 1h], max_age: 3d}\n"
    "  once: {topic: out, to: {http: {url: 'https://example.org'}}, retries: []}\n"
)


def test_the_topics_of_ingest_and_expel_are_wanted_with_their_dead_letters_retries_and_holds():
    topics = wanted(EDGES)
    waiting = {"plays.acme.retry_in.30s", "plays.acme.retry_in.1h", "plays.acme.retry_out"}
    letters = {"plays.plays.dlq", "plays.acme.dlq", "plays.once.dlq"}
    assert set(topics) - set(wanted()) == {*waiting, *letters, "plays.holds", "plays.tallies"}
    assert topics["raw"].rights == {Right.read, Right.write, Right.describe, Right.describe_configs}
    assert {topics[name].use for name in letters} == {Use.letters}
    assert {topics[name].settings["cleanup.policy"] for name in {*letters, "plays.holds"}} == {"compact"}
    assert topics["plays.holds"].wishes.partitions == 1
    tallies = topics["plays.tallies"].settings
    assert (tallies["cleanup.policy"], tallies["retention.ms"]) == ("delete", "172800000")
    assert tallies["message.timestamp.type"] == "LogAppendTime"
    assert "plays.tallies" not in wanted(EDGES + "tallies: false\n")
    assert "plays.tallies" in wanted("tallies: true\n")
    for name in waiting:
        assert topics[name].settings["cleanup.policy"] == "delete"
        # Longer than the oldest event that is still tried may have to wait.
        assert topics[name].settings["retention.ms"] == milliseconds(days=3, hours=1)
        assert "retention.ms" in topics[name].at_least


def test_retry_topics_are_kept_longer_if_people_wish_that_and_never_shorter():
    kept = {
        wish: wanted(f"{EDGES}topics:\n  '*': {{retention: {wish}}}\n")["plays.acme.retry_out"].settings["retention.ms"]
        for wish in ("1h", "30d")
    }
    assert kept == {"1h": milliseconds(days=3, hours=1), "30d": milliseconds(days=30)}


def test_retry_topics_take_what_their_route_s_topic_takes_in_as_many_partitions():
    topics = wanted(f"{EDGES}topics:\n  out: {{partitions: 6, max_message: 5MiB}}\n")
    waiting = topics["plays.acme.retry_out"]
    as_wished = made_alike(waiting, None, None)
    assert as_wished.wishes.partitions == 6
    assert as_wished.settings["max.message.bytes"] == str(5 * 2**20 + 2**16)
    as_is = made_alike(wanted(EDGES)["plays.acme.retry_out"], 12, 2_000_000)
    assert as_is.wishes.partitions == 12
    assert as_is.settings["max.message.bytes"] == str(2_000_000 + 2**16)
    assert as_is.at_least == {"retention.ms", "max.message.bytes", "partitions"}
    letters = made_alike(topics["plays.acme.dlq"], 12, 5 * 2**20)
    assert letters.wishes.partitions is None
    assert letters.settings["max.message.bytes"] == str(5 * 2**20 + 2**16)
    # Less than the brokers' default: there is room for the headers.
    assert "max.message.bytes" not in made_alike(wanted(EDGES)["plays.acme.retry_out"], 2, 10_000).settings
