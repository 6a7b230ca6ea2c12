"""The log cleaner takes the past of a topic away: who asks for it gets the right version or `expired`, never a miss."""

import shutil

import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from enrich.kafka import new_admin_client
from stores.table import Status
from tests.support.host.agents import AgentLife, plans_table, produce_plans
from tests.support.waiting import wait_until

HOUR = 3_600_000
EAGER_CLEANER = {
    "cleanup_policy": "compact",
    "segment_ms": "50",
    "min_cleanable_dirty_ratio": "0.001",
    "min_compaction_lag_ms": str(HOUR),
}


@pytest.fixture
def topic(new_topic):
    return new_topic(**EAGER_CLEANER)


@pytest.fixture
def life(cluster, topic, tmp_path):
    (tmp_path / "agent").mkdir()
    life = AgentLife(tmp_path / "agent", cluster.connection, plans_table(topic, history_ms=HOUR))
    yield life
    life.stop()


def times_of(cluster, topic, key):
    return [message.timestamp()[1] for message in cluster.messages(topic) if message.key() == key]


def clean(cluster, topic, gone):
    """Lets the cleaner run until this value is gone. It leaves the newest segment alone, so new ones are begun."""
    entry = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = new_admin_client(cluster.connection)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()

    def is_clean():
        produce_plans(cluster, topic, filler="x")
        return not any(message.value() == b'{"plan": "%s"}' % gone.encode() for message in cluster.messages(topic))

    wait_until(is_clean, what="the cleaner's run")


def test_after_a_wiped_store_and_a_run_of_the_cleaner_the_past_is_expired_and_not_missing(
    cluster, topic, life, tmp_path
):
    life.start().until_complete()  # to an empty topic: it sees all that comes
    for plan in ("first", "second"):
        produce_plans(cluster, topic, ann=plan)
    produce_plans(cluster, topic, bob="only")
    (first, _), (bob,) = times_of(cluster, topic, b"ann"), times_of(cluster, topic, b"bob")
    produce_plans(cluster, topic, bob=None)
    life.until_complete()
    early_pin = {0: 1}
    before = [life.answers("ann", "bob", as_of=bob), life.answers("ann", "bob", pin=early_pin)]
    assert before == [
        [(Status.HIT, "second"), (Status.HIT, "only")],
        [(Status.HIT, "first"), (Status.MISS, None)],
    ]
    clean(cluster, topic, "first")
    life.until_complete()
    # The store that was there keeps what the topic no longer has.
    assert [life.answers("ann", "bob", as_of=bob), life.answers("ann", "bob", pin=early_pin)] == before

    life.stop()
    shutil.rmtree(tmp_path / "agent" / "rows")
    life.start().until_complete()
    expired = [(Status.EXPIRED, None)] * 2
    assert life.answers("ann", "bob", as_of=bob) == expired
    assert life.answers("ann", "bob", as_of=first - 1) == expired
    assert life.answers("ann", "bob", pin=early_pin) == expired
    assert life.answers("ann", "bob") == [(Status.HIT, "second"), (Status.DELETED, None)]


def test_what_the_compaction_lag_keeps_is_answered_although_the_store_was_wiped(cluster, new_topic, tmp_path):
    topic = new_topic(**EAGER_CLEANER)
    for plan in ("first", "second"):
        produce_plans(cluster, topic, ann=plan)
    first, second = times_of(cluster, topic, b"ann")
    (tmp_path / "agent").mkdir()
    life = AgentLife(tmp_path / "agent", cluster.connection, plans_table(topic, history_ms=HOUR)).start()
    life.until_complete()
    assert life.answers("ann", pin={0: 1}) == [(Status.HIT, "first")]
    assert life.answers("ann", as_of=first - 1) == [(Status.MISS, None)]
    assert life.answers("ann", as_of=second) == [(Status.HIT, "second")]
    life.stop()
