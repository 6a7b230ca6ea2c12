"""What happens to topics over the years: each time the right rows, and until then the last ones, said to be old."""

from datetime import timedelta

import pytest
from confluent_kafka.cimpl import NewPartitions

from enrich.kafka import new_admin_client
from stores.table import Status
from tests.support.host.agents import AgentLife, ShiftedClock, plans_table, produce_plans
from tests.support.kafka.topics import delete_records
from tests.support.waiting import wait_until

COMPACTED = {"cleanup_policy": "compact"}


@pytest.fixture
def start(cluster, tmp_path):
    """Starts an agent over a table of the topic. Started again it is a restart over the same folder."""
    lives: list[AgentLife] = []

    def start_(topic, *more, clock=None, **how):
        for life in lives:
            life.stop()
        life = AgentLife(tmp_path, cluster.connection, plans_table(topic, **how), *more, clock=clock).start()
        lives.append(life)
        return life

    yield start_
    for life in lives:
        life.stop()


def make_again(cluster, topic, **settings):
    cluster.topics.delete(topic)
    wait_until(lambda: not cluster.topics.exists(topic), what="the topic's end")
    cluster.topics.create(topic, config={"cleanup.policy": "compact"}, **settings)


def test_a_topic_recreated_while_it_is_followed_is_loaded_anew(cluster, new_topic, start):
    topic = new_topic(**COMPACTED)
    produce_plans(cluster, topic, ann="free", bob="pro")
    life = start(topic)
    before = life.until_complete()
    make_again(cluster, topic)
    produce_plans(cluster, topic, eve="new", zoe="new", ann="again")  # beyond the offset at which the old one ended
    life.until(lambda _: "bob" not in life.rows(), "the new rows")
    assert life.rows() == {"eve": "new", "zoe": "new", "ann": "again"}
    assert life.until_complete().complete_through > before.complete_through


def test_until_a_topic_is_there_again_the_last_rows_answer_and_are_said_to_be_old(cluster, new_topic, start):
    topic = new_topic(**COMPACTED)
    produce_plans(cluster, topic, ann="free")
    life = start(topic)
    life.until_complete()
    cluster.topics.delete(topic)
    gone = life.until(lambda state: state.reason is not None, "the reason")
    assert "create the topic" in gone.reason
    later = [life.state() for _ in range(50)][-1]
    assert (later.ready, later.complete_through) == (True, gone.complete_through)
    assert life.rows() == {"ann": "free"}


def test_a_client_that_falls_silent_is_replaced_and_reads_on_where_it_was(cluster, new_topic, start, caplog):
    topic, other = new_topic(**COMPACTED), new_topic(**COMPACTED)
    produce_plans(cluster, topic, ann="free", bob="pro")
    produce_plans(cluster, other, ann="free")
    life = start(topic, plans_table(other, name="others"))
    life.until_complete()
    life.until_complete("others")
    life.silence(topic)
    produce_plans(cluster, topic, bob=None, eve="new")
    life.until(lambda _: life.rows() == {"ann": "free", "eve": "new"}, "what came meanwhile")
    produce_plans(cluster, other, ann="pro")
    life.until(lambda _: life.rows("others") == {"ann": "pro"}, "the other table", "others")
    life.until_complete()
    assert caplog.text.count("another client reads on") == 1


def test_a_topic_recreated_while_the_agent_was_away_is_loaded_anew(cluster, new_topic, start):
    topic = new_topic(**COMPACTED)
    produce_plans(cluster, topic, ann="free", bob="pro")
    start(topic).until_complete()
    make_again(cluster, topic)
    produce_plans(cluster, topic, eve="new", zoe="new", ann="again")
    life = start(topic)
    life.until_complete()
    assert life.rows() == {"eve": "new", "zoe": "new", "ann": "again"}


@pytest.mark.parametrize("away", [False, True], ids=["while it is followed", "while the agent was away"])
def test_partitions_that_are_added_are_followed_from_their_first_record(cluster, new_topic, start, away):
    topic = new_topic(**COMPACTED)
    produce_plans(cluster, topic, ann="free")
    life = start(topic)
    life.until_complete()
    if away:
        life.stop()
    admin = new_admin_client(cluster.connection)
    for future in admin.create_partitions([NewPartitions(topic, 4)]).values():
        future.result()
    wait_until(lambda: len(cluster.topics.partitions(topic)) == 4, what="the partitions")
    names = {f"k{one}": "new" for one in range(20)}
    produce_plans(cluster, topic, **names, ann="moved")
    life = start(topic) if away else life
    state = life.until_complete()
    assert life.rows() == {**names, "ann": "moved"}
    assert state.split_keys <= 1  # `ann`, if the new number of partitions gave it another


def test_records_that_the_broker_no_longer_has_force_a_new_load(cluster, new_topic, start):
    topic = new_topic(cleanup_policy="delete")
    produce_plans(cluster, topic, ann="free", bob="pro")
    life = start(topic, must_be_compacted=False)
    life.until_complete()
    life.stop()
    produce_plans(cluster, topic, ann="lost", eve="kept")
    delete_records(cluster.connection, topic, {0: 3})
    life = start(topic, must_be_compacted=False)
    life.until_complete()
    assert life.rows() == {"eve": "kept"}


@pytest.mark.parametrize(("away", "loads_anew"), [(timedelta(hours=11), False), (timedelta(hours=13), True)])
def test_a_store_that_was_away_for_half_as_long_as_tombstones_stay_is_loaded_anew(
    cluster, new_topic, start, caplog, away, loads_anew
):
    clock = ShiftedClock()
    topic = new_topic(**COMPACTED, delete_retention_ms=str(24 * 3600 * 1000))
    produce_plans(cluster, topic, ann="free")
    start(topic, clock=clock).until_complete()
    clock.ahead_ms = round(away.total_seconds() * 1000)
    life = start(topic, clock=clock)
    life.until_complete()
    assert ("a table is loaded anew" in caplog.messages) is loads_anew
    assert life.rows() == {"ann": "free"}


def test_a_quiet_table_saves_how_complete_it_is(cluster, new_topic, start, caplog):
    """Otherwise the restart after a quiet day would be taken for a day's absence."""
    clock = ShiftedClock()
    topic = new_topic(**COMPACTED, delete_retention_ms="600000")
    produce_plans(cluster, topic, ann="free")
    life = start(topic, clock=clock)
    life.until_complete()
    for minutes in (2, 4, 6):
        clock.ahead_ms = minutes * 50_000
        life.until_saved()
    clock.ahead_ms += 150_000
    start(topic, clock=clock).until_complete()
    assert "a table is loaded anew" not in caplog.messages


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_is_not_just_compacted_is_refused_unless_the_table_takes_any(cluster, new_topic, start, policy):
    topic = new_topic(cleanup_policy=policy)
    produce_plans(cluster, topic, ann="free")
    refused = start(topic).until(lambda state: state.reason and "cleanup.policy" in state.reason, "the refusal")
    assert (refused.ready, refused.rows) == (False, 0)
    assert "compaction: any" in refused.reason
    life = start(topic, must_be_compacted=False)
    life.until_complete()
    assert life.rows() == {"ann": "free"}


def test_two_tables_of_one_topic_are_both_whole(cluster, new_topic, start):
    topic = new_topic(**COMPACTED)
    produce_plans(cluster, topic, ann="free")
    start(topic).until_complete()
    produce_plans(cluster, topic, bob="pro")
    # The second table is loaded to the topic's end while the first is still behind it.
    life = start(topic, plans_table(topic, name="others"))
    life.until_complete("others")
    life.until_complete()
    produce_plans(cluster, topic, ann="pro")
    for table in ("users", "others"):
        life.until_complete(table)
        assert life.rows(table) == {"ann": "pro", "bob": "pro"}


def test_a_table_that_leaves_a_topic_takes_nothing_from_another_table_of_it(cluster, new_topic, start):
    topic = new_topic(**COMPACTED)
    life = start(topic, plans_table(topic, name="others"))
    life.until_complete()
    life.load_again("users")
    produce_plans(cluster, topic, ann="free")
    for table in ("others", "users"):
        life.until_complete(table)
        assert life.rows(table) == {"ann": "free"}


def grow(cluster, topic):
    """To four partitions."""
    admin = new_admin_client(cluster.connection)
    for future in admin.create_partitions([NewPartitions(topic, 4)]).values():
        future.result()
    wait_until(lambda: len(cluster.topics.partitions(topic)) == 4, what="the partitions")


def test_a_partition_that_is_new_to_a_table_is_read_from_its_start_also_where_another_table_is_ahead(
    cluster, new_topic, start
):
    topic = new_topic(**COMPACTED)
    life = start(topic, plans_table(topic, name="others"))
    life.until_complete()
    life.until_complete("others")
    grow(cluster, topic)
    names = {f"k{one}": "new" for one in range(20)}
    life.load_again("users")  # away while the other one meets the partitions
    produce_plans(cluster, topic, **names)
    for table in ("others", "users"):
        life.until_complete(table)
        assert life.rows(table) == names


def test_a_table_that_hears_of_new_partitions_after_another_one_has_read_them_reads_them_too(
    cluster, new_topic, start, monkeypatch
):
    topic = new_topic(**COMPACTED)
    life = start(topic, plans_table(topic, name="others"))
    life.until_complete()
    life.until_complete("others")
    monkeypatch.setattr(life.keeper("others"), "hear", lambda _: None)
    grow(cluster, topic)
    names = {f"k{one}": "new" for one in range(20)}
    produce_plans(cluster, topic, **names)
    life.load_again("users")
    life.until_complete("users")
    more = {f"m{one}": "new" for one in range(20)}
    produce_plans(cluster, topic, **more)  # the client reads these for both
    life.until_complete("users")
    monkeypatch.undo()
    for table in ("others", "users"):
        life.until_complete(table)
        assert life.rows(table) == {**names, **more}


def test_a_topic_that_is_read_again_for_another_table_changes_nothing(cluster, new_topic, start, monkeypatch):
    monkeypatch.setattr(
        "enrich.host.process.agent._BATCH_RECORDS", 3
    )  # so that one partition is behind while others move on
    topic = new_topic(**COMPACTED, partitions=4)
    names = {f"k{one}": "old" for one in range(40)}
    produce_plans(cluster, topic, **names)
    life = start(topic)
    life.until_complete()
    life.read_again(topic, partition=0)
    produce_plans(cluster, topic, **dict.fromkeys(names, "new"))
    life.until_complete()
    assert life.rows() == dict.fromkeys(names, "new")
    life.verify()


def test_history_that_the_compaction_lag_proves_whole_can_be_asked_after_a_load(cluster, new_topic, start):
    topic = new_topic(**COMPACTED, min_compaction_lag_ms="3600000")
    for plan in ("first", "second", "third"):
        produce_plans(cluster, topic, ann=plan)
    life = start(topic, history_ms=1_800_000)
    life.until_complete()
    assert life.versions("ann") == ["first", "second", "third"]
    assert life.floors() == {}


def test_history_over_an_absence_is_whole_only_where_the_topic_proves_it(cluster, new_topic, start):
    """The cleaner may have removed a version that came and went while nobody read."""
    clock = ShiftedClock()
    topics = [new_topic(**COMPACTED), new_topic(**COMPACTED, min_compaction_lag_ms=str(4 * 3600 * 1000))]
    others = plans_table(topics[1], name="others", history_ms=6 * 3_600_000)

    def started():
        life = start(topics[0], others, clock=clock, history_ms=6 * 3_600_000)
        for table in ("users", "others"):
            life.until_complete(table)
        return life

    for topic in topics:
        produce_plans(cluster, topic, ann="first")
    life = started()
    loaded = life.floors()
    life.stop()
    for plan in ("second", "third"):
        for topic in topics:
            produce_plans(cluster, topic, ann=plan)
    clock.ahead_ms = 3_600_000
    life = started()
    away_until = life.floors()[0].timestamp
    assert away_until > loaded[0].timestamp + 3_500_000
    assert life.answers("ann", as_of=away_until - 1_800_000) == [(Status.EXPIRED, None)]
    assert life.answers("ann", pin={0: 2}) == [(Status.EXPIRED, None)]
    # At the end of the topic, and from now on, everything can be asked for.
    assert life.answers("ann", pin={0: 3}) == life.answers("ann", as_of=away_until) == [(Status.HIT, "third")]
    assert life.answers("ann", "others", table="others", pin={0: 2})[0] == (Status.HIT, "second")
    life.stop()
    clock.ahead_ms += 600_000  # away once more, and nothing came
    assert started().floors() == life.floors()
