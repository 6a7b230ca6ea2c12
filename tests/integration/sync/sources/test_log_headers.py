"""Records from the change log say which change of the database they are, and later ones have later versions."""

from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Message

from enrich.config.sections.sync.sources import slot_name
from enrich.kafka import new_admin_client
from enrich.kafka.records import headers_of
from stores.external.postgres.log.slots import Slots
from stores.external.postgres.log.stream import lsn_number
from tests.support.sync.many_tables import many_tables
from tests.support.sync.sources import SourceWorld
from tests.support.waiting import wait_until


@pytest.fixture
def logged(source: SourceWorld) -> Iterator[SourceWorld]:
    source.origin = {"postgres": {**source.origin["postgres"], "follow": "log"}}
    source.make_topic(partitions=1)
    yield source
    with closing(Slots(source.dsn, slot_name(source.name, "in"))) as slots:
        slots.drop()
    source.postgres.execute(f"DROP PUBLICATION IF EXISTS {slot_name(source.name, 'in')}")


AHEAD = 2**50
"""Of a log that is further than that of the tests' server ever is."""


def forget_place(source: SourceWorld) -> None:
    """As brokers do, a week after it was written last."""
    admin = new_admin_client(source.cluster.connection)
    group = f"enrich.source.{source.name}.in.log"

    def is_gone() -> bool:
        with suppress(KafkaException):
            admin.delete_consumer_groups([group])[group].result()
        (found,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        return not found.result().topic_partitions

    wait_until(is_gone, what="the group to be gone")


def headers(message: Message) -> dict[str, str]:
    return {name.removeprefix("enrich."): str(content or b"", "utf-8") for name, content in headers_of(message)}


def test_each_record_says_which_change_it_is(logged: SourceWorld) -> None:
    logged.make_table(rows=2)
    with logged.running():
        logged.wait_equal()
        logged.insert(3, 3)
        with logged.postgres.transaction():
            xid = str(logged.postgres.execute("SELECT pg_current_xact_id()::text").fetchone()[0])
            logged.change(3, "changed")
            logged.execute("UPDATE {} SET id = 4 WHERE id = 3")
            logged.execute("DELETE FROM {} WHERE id = 1")
        logged.wait_equal()
        logged.execute("TRUNCATE {}")
        logged.wait_equal()
    messages = logged.cluster.messages(logged.topic)
    said = [(str(message.key() or b"", "utf-8"), headers(message)["op"]) for message in messages]
    of_log = [("3", "insert"), ("3", "update"), ("3", "delete"), ("4", "insert"), ("1", "delete")]
    assert sorted(said[:2]) == [("1", "snapshot"), ("2", "snapshot")]
    assert said[2:7] == of_log
    assert sorted(said[7:]) == [("2", "snapshot"), ("4", "snapshot")], "a TRUNCATE is a comparison"
    assert ["xid" in headers(message) for message in messages] == [False] * 2 + [True] * 5 + [False] * 2
    whole = [headers(message) for message in messages[3:7]]
    assert {(each["xid"], each["version"], each["commit_time"]) for each in whole} == {
        (xid, str(lsn_number(whole[0]["lsn"])), whole[0]["commit_time"])
    }
    # The record has the commit's time.
    committed_ms = datetime.fromisoformat(whole[0]["commit_time"]).timestamp() * 1000
    assert messages[3].timestamp()[1] == int(committed_ms)


def test_versions_and_times_rise_through_comparisons_and_restarts(logged: SourceWorld) -> None:
    logged.make_table(rows=10)
    for round_ in range(3):
        with logged.running():
            logged.wait_equal()
            logged.change(1, f"change {round_}")
            logged.wait_equal()
            logged.execute(f"ALTER TABLE {{}} ADD COLUMN c{round_} int DEFAULT 1")
            logged.change(1, f"changed columns {round_}")
            logged.wait_equal()
        with closing(Slots(logged.dsn, slot_name(logged.name, "in"))) as slots:
            slots.drop()
        logged.change(1, f"while away {round_}")
    messages = [message for message in logged.cluster.messages(logged.topic) if message.key() == b"1"]
    versions = [int(headers(message)["version"]) for message in messages]
    times = [message.timestamp()[1] for message in messages]
    assert len(versions) >= 9
    assert versions == sorted(set(versions))
    assert times == sorted(times)


def test_where_the_place_is_forgotten_versions_rise_above_those_of_a_log_that_was_ahead(logged: SourceWorld) -> None:
    """It was another server's: a target with its rows would take none with lower versions."""
    logged.make_table(rows=3)
    with logged.running():
        logged.wait_equal()
    logged.cluster.produce(logged.topic, [(b"1", b'{"id": 1}')], headers=[("enrich.version", str(AHEAD).encode())])
    forget_place(logged)
    with logged.running():
        logged.wait_equal()
        logged.change(2, "changed")
        logged.wait_equal()
    *_, ahead, compared, changed = logged.cluster.messages(logged.topic)
    assert [int(headers(message)["version"]) - AHEAD for message in (ahead, compared, changed)] == [0, 1, 2]


def test_so_they_do_in_each_of_many_topics(source: SourceWorld) -> None:
    with many_tables(source) as many:
        many.make("one", rows=2)
        many.make("two", rows=2)
        with source.running():
            many.wait_equal()
        source.cluster.produce(
            many.topic("two"), [(b"1", b'{"id": 1}')], headers=[("enrich.version", str(AHEAD).encode())]
        )
        forget_place(source)
        with source.running():
            many.wait_equal()
            many.change("two", "changed")
            many.wait_equal()
        newest = {m.key(): int(headers(m)["version"]) for m in source.cluster.messages(many.topic("two"))}
    assert newest[b"1"] == AHEAD + 2
