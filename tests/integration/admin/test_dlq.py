"""`enrich dlq` and changes of a quarantine: each letter goes back once, as it was, and never over something newer."""

import time
from contextlib import closing
from functools import partial

import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from enrich.admin.cluster import Cluster
from enrich.admin.rejected.quarantined import NEWER, replayable, send_back
from enrich.config import load
from enrich.host.tables import topic_tables
from enrich.kafka import DeliveringProducer, new_admin_client
from enrich.kafka.records import headers_of
from enrich.kafka.writing.dead_letters import Origin, dead_letter
from enrich.kafka.writing.whole_transactions import WholeTransactions
from stores.protocol import Quarantined
from tests.support.commands import enrich, enrich_process, lines
from tests.support.host.ending import stop_agent_of
from tests.support.seed import random_source, rounds
from tests.support.waiting import wait_until


@pytest.fixture
def topics(new_topic):
    """Events, rows, and a DLQ."""
    compacted = {"partitions": 2, "cleanup_policy": "compact"}
    return new_topic(partitions=2), new_topic(**compacted), new_topic(**compacted)


@pytest.fixture
def config(write_config, topics):
    events, rows, dlq = topics
    path = write_config(
        f"tables:\n  users: {{topic: {rows}, format: json, columns: 'plan string'}}\n"
        f"stages:\n  enrich:\n    source: {{topic: {events}, format: json, schema: 'user_id string, n int'}}\n"
        f"    lookups: [{{table: users, key: user_id, as: user}}]\n    sink: {{topic: out}}\n    dlq: {dlq}\n"
    )
    yield path
    stop_agent_of(load(path))


@pytest.fixture
def bury(cluster, topics):
    """Writes dead letters of records that need not be there."""

    def write(*origins, reason="missing user", sender="", **options):
        with DeliveringProducer(cluster.connection) as producer:
            for origin in origins:
                letter = dead_letter(origin, reason, stage="enrich", sender=sender, **options)
                # Named by its place alone, as earlier releases did.
                producer.produce(topics[2], letter.key.removesuffix(b"/"), letter.value, headers=letter.headers)

    return write


def test_a_place_stands_for_the_letters_of_all_stages_that_could_not_process_what_stood_there(config, cluster, topics):
    events, _, dlq = topics
    letter = dead_letter(Origin(events, 1, 5, b"ann", b"x"), "no json", stage="enrich", sender="")
    place = f"{events}/1/5"
    names = [place, f"{place}/plays.enrich/an-id", f"{place}/plays.other/an-id"]
    with DeliveringProducer(cluster.connection) as producer:
        for name in names:
            producer.produce(dlq, name.encode(), letter.value, headers=letter.headers)
    for asked, found in ((place, names), (names[1], names[1:2])):
        shown = lines(enrich("dlq", "show", asked, "-c", config, "--json"))
        assert {line["letter"] for line in shown} == set(found)
    assert enrich("dlq", "purge", "--yes", names[1], "-c", config).returncode == 0
    assert set(listed(config)) == {names[0], names[2]}


def listed(config):
    return {letter["letter"]: letter for letter in lines(enrich("dlq", "list", "-c", config, "--json"))}


def test_letters_are_listed_shown_and_replayed_once_with_what_they_had(config, cluster, topics, bury):
    events, _, dlq = topics
    value = b'{"user_id": "ann", "n": "many"}'
    original = [("trace", b"\x00\xff"), ("trace", b"2"), ("enrich.version", b"7")]
    bury(Origin(events, 1, 5, b"ann", value, original), Origin(events, 0, 3, None, b""), reason="missing user")
    bury(Origin(events, 0, 9, b"bob", b"x" * 50), reason="no json", largest_value=10)
    bury(Origin(events, 1, 5, b"ann", value, original), reason="missing user")  # written twice: at least once

    found = listed(config)
    assert set(found) == {f"{events}/1/5", f"{events}/0/3", f"{events}/0/9"}
    one = found[f"{events}/1/5"]
    expected = {"dlq": dlq, "topic": events, "partition": 1, "offset": 5, "reason": "missing user", "stage": "enrich"}
    assert {name: one[name] for name in expected} == expected
    people = enrich("dlq", "list", "-c", config).stdout
    assert "missing user" in people and "│ 2 " in people
    (shown,) = lines(enrich("dlq", "show", f"{events}/1/5", "-c", config, "--json"))
    assert (shown["key"], shown["value"], shown["decoded"]) == ("ann", value.decode(), {"user_id": "ann"})
    assert "n" in shown["failed"]
    assert enrich("dlq", "show", f"{events}/0/77", "-c", config).returncode == 1

    assert enrich("dlq", "replay", "-c", config).returncode == 2
    dry = enrich("dlq", "replay", "--all", "--dry-run", "-c", config, "--json")
    assert lines(dry)[-1]["replayed"] == 2
    assert cluster.messages(events) == []
    done = enrich("dlq", "replay", "--all", "-c", config, "--json")
    assert done.returncode == 1  # one was cut
    (outcome,) = lines(done)
    assert (outcome["replayed"], sum(outcome["skipped"].values())) == (2, 1)
    by_key = {message.key(): message for message in cluster.messages(events)}
    assert set(by_key) == {b"ann", None}
    assert by_key[b"ann"].value() == value
    assert headers_of(by_key[b"ann"]) == [*original, ("enrich.replays", b"1")]
    assert set(listed(config)) == {f"{events}/0/9"}
    assert lines(enrich("dlq", "replay", "--all", "-c", config, "--json"))[0]["replayed"] == 0

    bury(Origin(events, 1, 8, b"ann", value, headers_of(by_key[b"ann"])))
    assert listed(config)[f"{events}/1/8"]["replays"] == 1


def test_a_letter_never_hides_a_newer_row_unless_forced(config, cluster, topics, bury):
    _, rows, _ = topics
    cluster.produce(rows, [(b"ann", b'{"plan": "old"}'), (b"bob", b'{"plan": "old"}')])
    first = {message.key(): message for message in cluster.messages(rows)}
    bury(*(Origin(rows, m.partition(), m.offset(), m.key(), m.value()) for m in first.values()))
    cluster.produce(rows, [(b"ann", b'{"plan": "new"}')])
    done = enrich("dlq", "replay", "--all", "-c", config, "--json")
    (outcome,) = lines(done)
    assert (done.returncode, outcome["replayed"]) == (1, 1)
    newest = {message.key(): message.value() for message in cluster.messages(rows)}
    assert newest[b"ann"] == b'{"plan": "new"}'
    ann = cluster.messages(rows)
    last = next(message for message in reversed(ann) if message.key() == b"ann")
    forced = lines(enrich("dlq", "replay", "--all", "--force", "-c", config, "--json"))
    assert forced[0]["overwrites"] == f"{rows}/{last.partition()}/{last.offset()}"
    assert forced[-1]["replayed"] == 1


def test_only_what_was_chosen_is_purged_and_only_when_asked(config, cluster, topics, bury):
    events, _, _ = topics
    bury(*(Origin(events, 0, offset, b"k", b"v") for offset in range(5)), reason="a")
    bury(*(Origin(events, 0, offset, b"k", b"v") for offset in range(5, 8)), reason="b")
    refused = enrich("dlq", "purge", "--reason", "b", "-c", config)
    assert refused.returncode == 4
    assert len(listed(config)) == 8
    purged = enrich("dlq", "purge", "--reason", "b", "--yes", "-c", config, "--json")
    assert {line["letter"] for line in lines(purged)} == {f"{events}/0/{offset}" for offset in range(5, 8)}
    assert set(listed(config)) == {f"{events}/0/{offset}" for offset in range(5)}


def test_no_letter_is_called_purged_that_is_still_there(config, cluster, topics, bury):
    events, _, dlq = topics
    bury(Origin(events, 0, 1, b"k", b"v"))
    entry = ConfigEntry("max.message.bytes", "60", incremental_operation=AlterConfigOpType.SET)
    small = ConfigResource(ConfigResource.Type.TOPIC, dlq, incremental_configs=[entry])
    admin = new_admin_client(cluster.connection)  # whose futures stay open once it is gone
    admin.incremental_alter_configs([small])[small].result(60)
    refused = enrich("dlq", "purge", "--all", "--yes", "-c", config, "--json")
    assert (refused.returncode, lines(refused), len(listed(config))) == (5, [], 1)
    asked = enrich("dlq", "purge", "--all", "-c", config, "--json")
    assert (asked.returncode, [line["purged"] for line in lines(asked)]) == (4, [False])


def test_letters_go_back_once_and_can_be_purged_although_their_dlq_has_got_more_partitions(
    config, cluster, topics, bury
):
    events, _, dlq = topics
    bury(*(Origin(events, 0, offset, b"k", b"%d" % offset) for offset in range(20)), reason="a")
    bury(*(Origin(events, 0, offset, b"k", b"%d" % offset) for offset in range(20, 40)), reason="b")
    cluster.topics.grow(dlq, 7)
    for _ in range(2):
        assert enrich("dlq", "replay", "--reason", "a", "-c", config).returncode == 0
    assert cluster.ids(events) == dict.fromkeys(range(20), 1)
    assert enrich("dlq", "purge", "--reason", "b", "--yes", "-c", config).returncode == 0
    assert listed(config) == {}


@pytest.mark.parametrize("command", [("replay",), ("purge", "--yes")])
def test_many_letters_go_although_topics_take_less_at_once_than_clients_send(write_config, cluster, new_topic, command):
    small = {"partitions": 1, "max_message_bytes": "20000"}
    events, dlq = new_topic(**small), new_topic(cleanup_policy="compact", **small)
    config = write_config(
        f"stages:\n  enrich:\n    source: {{topic: {events}, format: json, schema: 'user_id string'}}\n"
        f"    sink: {{topic: out}}\n    dlq: {dlq}\n"
    )
    clients = "kafka: {client: {batch.size: 1000000, linger.ms: 1000}, "
    config.write_text(config.read_text().replace("kafka: {", clients))
    with DeliveringProducer({**cluster.connection, "batch.size": 10_000}) as producer:
        for offset in range(3_000):
            letter = dead_letter(Origin(events, 0, offset, b"k", b"%d" % offset), "a", stage="enrich", sender="")
            producer.produce(dlq, letter.key, letter.value, headers=letter.headers)
    done = enrich("dlq", *command, "--all", "-c", config)
    assert done.returncode == 0, done.stderr
    assert listed(config) == {}
    assert len(cluster.messages(events)) == (3_000 if command == ("replay",) else 0)


def _has_begun(cluster, topic, before, process):
    return sum(cluster.topics.written_offsets(topic).values()) > before or process.poll() is not None


def test_a_replay_that_is_killed_again_and_again_sends_each_letter_once(config, cluster, topics, bury):
    events, _, _ = topics
    chance = random_source("replay killed")
    number = rounds(3_000, 10_000)
    bury(*(Origin(events, 0, offset, str(offset).encode(), str(offset).encode()) for offset in range(number)))
    for _ in range(rounds(2, 20)):
        before = sum(cluster.topics.written_offsets(events).values())
        with enrich_process("dlq", "replay", "--all", "-c", config) as replay:
            wait_until(partial(_has_begun, cluster, events, before, replay), what="the first records")
            time.sleep(chance.uniform(0, 0.3))  # not a wait: where the kill comes is what is tried out
    done = enrich("dlq", "replay", "--all", "-c", config)
    assert done.returncode == 0, done.stderr
    assert cluster.ids(events) == dict.fromkeys(range(number), 1)
    assert listed(config) == {}


def test_a_dry_run_does_not_shut_out_a_replay_that_is_under_way(config, cluster, topics, bury):
    events, _, dlq = topics
    bury(Origin(events, 0, 1, b"ann", b"1"))
    with closing(WholeTransactions(cluster.connection, f"enrich.dlq.{dlq}")) as replay:
        replay.start()
        with replay.transaction():
            replay.produce_one(events, b"ann", b"1")
            dry = enrich("dlq", "replay", "--all", "--dry-run", "-c", config, "--json")
            assert lines(dry)[-1] == {"dlq": dlq, "done": False, "replayed": 1, "skipped": {}}
    # What is committed shows a moment later: brokers write the marks of a transaction after they have answered.
    wait_until(lambda: cluster.ids(events) == {1: 1}, what="the event")


def test_records_of_a_dlq_that_are_no_letters_are_counted_shown_and_left_alone(config, cluster, topics, bury):
    events, _, dlq = topics
    bury(Origin(events, 0, 1, b"ann", b"1"))
    cluster.produce(dlq, [(b"somebody's", b"data"), (b"and more", b"data")])
    found = listed(config)
    others = [one for one in lines(enrich("dlq", "list", "-c", config, "--json")) if one["letter"] is None]
    assert (len(found), len(others), {one["topic"] for one in others}) == (2, 2, {dlq})  # the letter, and None for both
    people = enrich("dlq", "list", "-c", config).stdout
    assert f"{dlq}: 2 records besides" in people
    assert "besides" not in enrich("dlq", "list", "--reason", "missing user", "-c", config).stdout
    assert enrich("dlq", "purge", "--all", "--yes", "-c", config).returncode == 0
    people = enrich("dlq", "list", "-c", config).stdout
    assert "there are no dead letters" in people and f"{dlq}: 2 records besides" in people


def test_records_without_a_key_are_counted_too_where_a_dlq_has_no_other(write_config, cluster, new_topic):
    dlq = new_topic()  # a compacted one would not take them
    config = write_config(
        "stages:\n  enrich:\n    source: {topic: in, format: json, schema: 'user_id string'}\n"
        f"    lookups: []\n    sink: {{topic: out}}\n    dlq: {dlq}\n"
    )
    cluster.produce(dlq, [(None, b"data"), (None, b"more")])
    found = lines(enrich("dlq", "list", "-c", config, "--json"))
    assert [(one["letter"], one["topic"], one["offset"]) for one in found] == [(None, dlq, 0), (None, dlq, 1)]
    assert f"{dlq}: 2 records besides" in enrich("dlq", "list", "-c", config).stdout


def test_quarantined_records_go_back_when_they_can_be_rows_and_are_purged(config, cluster, topics):
    _, rows, _ = topics
    cluster.produce(rows, [(b"ann", b'{"plan": 5}'), (b"bob", b'{"plan": 5}'), (b"eve", b'{"plan": 6}')])
    records = lines(enrich("quarantine", "list", "users", "-c", config, "--json"))
    assert len(records) == 3
    stay = enrich("quarantine", "replay", "users", "--all", "-c", config, "--json")
    assert (stay.returncode, lines(stay)[-1]["skipped"]) == (1, {"it still cannot become a row": 3})
    place = f"{records[0]['partition']}/{records[0]['offset']}"
    assert enrich("quarantine", "purge", "users", place, "-c", config).returncode == 4
    assert enrich("quarantine", "purge", "users", place, "--yes", "-c", config).returncode == 0
    left = lines(enrich("quarantine", "list", "users", "-c", config, "--json"))
    assert [(one["partition"], one["offset"]) for one in left] == [(r["partition"], r["offset"]) for r in records[1:]]


def test_a_record_that_can_be_a_row_by_now_goes_back_unless_its_key_has_something_newer(config, cluster, topics):
    _, rows, _ = topics
    cluster.produce(rows, [(b"ann", b'{"plan": "a"}'), (b"bob", b'{"plan": "b"}'), (b"bob", b'{"plan": "c"}')])
    pipeline = load(config)
    table = topic_tables(pipeline)["users"]
    ann, older, _ = sorted(cluster.messages(rows), key=lambda message: message.value())
    # As kept when its schema was not known yet.
    records = [
        Quarantined("users", m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), "no such schema", 0)
        for m in (ann, older)
    ]
    brokers = Cluster(pipeline.kafka)
    good, left, newer = replayable(brokers, table, records)
    assert (good, left, set(newer)) == ([records[0]], {NEWER: [records[1]]}, {records[1]})
    send_back(brokers, table, good)
    back = [message for message in cluster.messages(rows) if message.key() == b"ann"]
    assert [(message.value(), headers_of(message)) for message in back] == [
        (b'{"plan": "a"}', []),
        (b'{"plan": "a"}', [("enrich.replays", b"1")]),
    ]
    assert replayable(brokers, table, good)[1] == {NEWER: good}  # it was sent: by whoever was killed right then


@pytest.fixture
def made_again(cluster, topics):
    """Ann had a record far behind in the topic of rows: `rejected` is called with it. The topic was made again, and now
    she has one near its beginning, with `more` records behind."""

    def make(more, rejected):
        _, rows, _ = topics
        bad, good = b'{"plan": "a"}', b'{"plan": "b"}'
        cluster.produce(rows, [(b"ann", b"%d" % number) for number in range(20)])
        cluster.produce(rows, [(b"ann", bad)])
        old = next(message for message in cluster.messages(rows) if message.value() == bad)
        rejected(old)
        cluster.make_again(rows, partitions=2)
        cluster.produce(rows, [(b"ann", good)])
        (new,) = cluster.messages(rows)
        assert new.partition() == old.partition() and new.offset() < old.offset()
        cluster.produce(rows, [(b"k%d" % number, good) for number in range(100 if more else 0)])

    return make


@pytest.mark.parametrize("more", [False, True])
def test_what_was_quarantined_does_not_hide_a_row_of_the_topic_that_was_made_again(config, made_again, more):
    records = []

    def quarantine(ann):
        place = ann.partition(), ann.offset(), ann.timestamp()[1]
        records.append(Quarantined("users", *place, ann.key(), ann.value(), "no such schema", 0))

    made_again(more, quarantine)
    pipeline = load(config)
    good, left, newer = replayable(Cluster(pipeline.kafka), topic_tables(pipeline)["users"], records)
    assert (good, left) == ([], {NEWER: records})
    assert newer[records[0]].offset < records[0].offset


@pytest.mark.parametrize("more", [False, True])
def test_letters_do_not_hide_a_row_of_the_topic_that_was_made_again(config, cluster, topics, bury, made_again, more):
    _, rows, _ = topics

    def reject(ann):
        lost = Origin(rows, ann.partition(), ann.offset() + 1, b"lost", b"l")
        bury(Origin(rows, ann.partition(), ann.offset(), ann.key(), ann.value()), lost)

    made_again(more, reject)
    done = enrich("dlq", "replay", "--all", "-c", config, "--json")
    (outcome,) = lines(done)
    assert (done.returncode, outcome["replayed"]) == (1, 1)
    assert [message.value() for message in cluster.messages(rows) if message.key() == b"ann"] == [b'{"plan": "b"}']


def test_offsets_of_letters_are_not_compared_with_those_of_the_topic_that_was_made_again(
    config, cluster, topics, bury, made_again
):
    _, rows, _ = topics

    def reject(ann, sender="test.enrich/old-id"):
        bury(Origin(rows, ann.partition(), ann.offset(), ann.key(), ann.value()), sender=sender)

    made_again(False, reject)
    (new,) = cluster.messages(rows)
    reject(new, "test.enrich/new-id")
    done = enrich("dlq", "replay", "--all", "-c", config, "--json")
    assert (done.returncode, lines(done)[0]["replayed"]) == (1, 1)
    assert {message.value() for message in cluster.messages(rows)} == {new.value()}
    assert set(listed(config)) == {f"{rows}/{new.partition()}/20/test.enrich/old-id"}


def test_a_dlq_of_somebody_else_is_refused_and_a_broker_away_ends_with_3(config, write_config, topics):
    assert enrich("dlq", "purge", "--all", "--yes", "--dlq", topics[0], "-c", config).returncode == 2
    away = write_config(config.read_text().split("\n", 3)[3], servers="127.0.0.1:1", name="away.yaml")
    for command in (["list"], ["show", "a/0/1"], ["replay", "--all"], ["purge", "--all", "--yes"]):
        assert enrich("dlq", *command, "-c", away, "--deadline", "1").returncode == 3
