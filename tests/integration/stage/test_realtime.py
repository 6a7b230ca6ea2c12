"""`profile: realtime`: events flow through slots, each written once, and the stage's life is that of any other."""

import json
import os
import threading
from collections import Counter
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from enrich.base.errors import BadRecord, ConfigError, Fenced, WouldLoseData
from enrich.kafka import new_assigned_consumer, new_producer
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.stage.progress.starting import From
from enrich.stage.realtime import taking_over
from enrich.stage.realtime.assignment import each_partition, transactional_id
from enrich.stage.realtime.commits import commits_of, read_commits
from enrich.stage.realtime.job import SlotJob
from enrich.stage.realtime.notes import Note
from enrich.stage.realtime.progress import MARK
from enrich.stage.run import preload as preloading
from enrich.stage.run import slots, stage_run
from enrich.stage.run.batches import BatchFlow
from tests.support.processes import kill, python_workers
from tests.support.seed import random_source, rounds
from tests.support.servers.rows_by_key import rows_by_key
from tests.support.stage.runs import LOOKUP, Run, running
from tests.support.stage.world import Load, running_stage
from tests.support.waiting import GUARD_S, wait_until, when_reachable


@pytest.fixture
def stage(world):
    world.users()
    return world.stage("enrich", [LOOKUP], profile="realtime")


@pytest.fixture
def plain(world):
    """A stage whose life it is about, and not what it looks up: it needs no agent."""
    return world.stage("enrich", [], profile="realtime")


def until(world, stage, number, run=None):
    """So many different events. The ends of a topic do not say it: those of transactions take offsets, too."""

    def all_there():
        assert run is None or run.error is None, run.error
        return len(world.seen(stage)) >= number

    wait_until(all_there, what=f"{number} events")


def notes(world, group, partitions):
    """Who has committed last."""
    commits = read_commits(world.cluster.connection, group, partitions)
    return [each.note for each in commits.values() if each.note is not None]


def test_a_stage_enriches_follows_its_table_drains_and_goes_on_where_it_was(spark, world, stage):
    events = [{"id": 1, "user_id": "ann", "more": [1.50, "é"]}, {"id": 2, "user_id": "nobody"}, {"id": 3}, b"{no json"]
    world.send(stage, events)
    with running(spark, world, stage) as run:
        output = {event["id"]: event for event in world.until(stage, 4)}
        assert output == {
            1: {"id": 1, "user_id": "ann", "more": [1.5, "é"], "user": {"plan": "free", "region": "eu"}},
            2: {"id": 2, "user_id": "nobody", "user": None},
            3: {"id": 3, "user": None},
        }
        (letter,) = world.dead_letters(stage)
        assert dict(letter.headers())["enrich.reason"] == b"the event is not a JSON object"
        world.put("users", {"ann": {"plan": "pro", "region": "eu"}})
        number = 10

        def sees_the_change():
            nonlocal number
            number += 1
            world.send(stage, [{"id": number, "user_id": "ann"}])
            until(world, stage, number - 7, run)
            seen = {event["id"]: event for event in world.output(stage)}
            return seen[number]["user"]["plan"] == "pro"

        wait_until(sees_the_change, what="the change of the table")
        run.stop.set()
        assert run.end() is None
    before = world.output(stage)
    world.send(stage, [{"id": 1000, "user_id": "bob"}])
    with running(spark, world, stage) as run:
        until(world, stage, len(before) + 1, run)
    assert sorted(world.ids(stage).elements()) == sorted([*(event["id"] for event in before), 1000])


def test_drains_under_load_repeat_nothing_and_leave_nothing_out(spark, world, stage, caplog):
    caplog.set_level("INFO")
    with Load(world, stage) as load:
        for _ in range(rounds(1, 10)):
            done = len(world.seen(stage))
            with running(spark, world, stage) as run:
                until(world, stage, done + 1_000, run)
                run.stop.set()
                assert run.end() is None
    with running(spark, world, stage) as run:
        until(world, stage, load.sent, run)
    assert world.ids(stage) == Counter(range(load.sent))
    assert world.committed(stage) == world.cluster.topics.end_offsets(world.topic("enrich.in"))
    told = [vars(record) for record in caplog.records if record.getMessage() == "the stage has drained"]
    assert sum(each["events"] for each in told) == load.sent


def test_a_stage_goes_from_batches_to_realtime_and_back_and_neither_takes_the_others_checkpoint(spark, world, plain):
    section = world.document["stages"][plain]
    checkpoint = Path(section["checkpoint"])

    def change(profile):
        with pytest.raises(ConfigError, match="checkpoint is one of") as raised:
            raise Run(spark, world, plain).end()
        assert "--from group" in str(raised.value.next_step)
        section["checkpoint"] = str(checkpoint.with_name(f"{profile}-{load.sent}"))

    with Load(world, plain) as load:
        for number, profile in enumerate(["latency", "realtime", "latency"]):
            done = len(world.seen(plain)) if number else 0
            section["profile"] = profile
            start = None
            if number:
                change(profile)
                start = From.parse("group")
            with running(spark, world, plain, start) as run:
                until(world, plain, done + 500, run)
                run.stop.set()
                assert run.end() is None
    with running(spark, world, plain) as run:
        until(world, plain, load.sent, run)
    assert world.ids(plain) == Counter(range(load.sent))


def test_a_checkpoint_of_batches_from_before_the_stage_was_realtime_is_refused(spark, world, plain):
    """As after a roll-back of a deployment: all that the slots have done would be done again."""
    section = world.document["stages"][plain]
    before = {**section, "profile": "latency"}
    section |= before

    def drained(number, start=None):
        world.send(plain, [{"id": number}])
        with running(spark, world, plain, start) as run:
            until(world, plain, number + 1, run)
            run.stop.set()
            assert run.end() is None

    drained(0)
    section |= {"profile": "realtime", "checkpoint": f"{before['checkpoint']}-realtime"}
    drained(1, From.parse("group"))
    section |= before
    with pytest.raises(ConfigError, match="since with profile: realtime") as raised:
        raise Run(spark, world, plain).end()
    assert "--from group" in str(raised.value.next_step)
    section["checkpoint"] += "-again"
    drained(2, From.parse("group"))
    assert world.ids(plain) == Counter(range(3))


@pytest.mark.parametrize("profile", ["realtime", "latency"])
def test_a_start_from_the_group_goes_on_where_the_driver_that_it_shuts_out_has_come_to(
    spark, world, profile, monkeypatch
):
    """Which need not be drained: with another checkpoint it may run still."""
    stage, preload = world.stage("enrich", [], profile="realtime", slots=1), preloading.preload
    section = world.document["stages"][stage]
    world.send(stage, [{"id": number} for number in range(10)])
    with running(spark, world, stage) as older:
        until(world, stage, 10, older)

        def goes_on_meanwhile(*arguments):
            world.send(stage, [{"id": number} for number in range(10, 15)])
            until(world, stage, 15, older)
            return preload(*arguments)

        monkeypatch.setattr(stage_run, "preload", goes_on_meanwhile)
        section |= {"profile": profile, "checkpoint": f"{section['checkpoint']}-again"}
        if profile == "latency":
            del section["slots"]
        with running(spark, world, stage, From.parse("group")) as newer:
            assert isinstance(older.end(), Fenced)
            world.send(stage, [{"id": 15}])
            until(world, stage, 16, newer)
            newer.stop.set()
            assert newer.end() is None
    assert world.ids(stage) == Counter(range(16))


def test_a_lost_checkpoint_or_group_is_refused_until_somebody_says_where_to_go_on(spark, world, plain):
    world.send(plain, [{"id": number} for number in range(10)])
    with running(spark, world, plain) as run:
        until(world, plain, 10, run)
        run.stop.set()
        assert run.end() is None
    with pytest.raises(ConfigError, match="without a checkpoint"):
        raise Run(spark, world, plain, From.parse("earliest")).end()
    world.lose_checkpoint(plain)
    world.send(plain, [{"id": number} for number in range(10, 15)])
    with pytest.raises(WouldLoseData, match="--from group"):
        raise Run(spark, world, plain).end()
    with running(spark, world, plain, From.parse("group")) as run:
        until(world, plain, 15, run)
        run.stop.set()
        assert run.end() is None
    assert world.ids(plain) == Counter(range(15))
    world.cluster.topics._admin.delete_consumer_groups([world.progress(plain).group])
    wait_until(lambda: not world.committed(plain), what="the group's end")
    with pytest.raises(WouldLoseData, match="has no offsets any more"):
        raise Run(spark, world, plain).end()
    world.lose_checkpoint(plain)
    with running(spark, world, plain, From.parse("earliest")) as run:
        wait_until(lambda: world.ids(plain) == Counter(dict.fromkeys(range(15), 2)), what="all events once more")


def goes_on_alone(world, stage, number, run, *, shut_out):
    assert isinstance(shut_out.end(), Fenced)
    until(world, stage, number, run)
    run.stop.set()
    assert run.end() is None


def each_is_written_once(spark, world, stage, load):
    """Once what was left is done, too."""
    with running(spark, world, stage) as run:
        until(world, stage, load.sent, run)
    assert world.ids(stage) == Counter(range(load.sent))


def test_the_newer_of_two_drivers_shuts_the_older_one_out_and_no_event_is_written_twice(spark, world):
    # Without look-ups, which are loaded by all cores, and with a slot each: in one session they share two cores.
    stage = world.stage("enrich", [], profile="realtime", slots=1)
    with Load(world, stage) as load, running(spark, world, stage) as older:
        until(world, stage, 200, older)
        with running(spark, world, stage) as newer:
            goes_on_alone(world, stage, load.sent + 400, newer, shut_out=older)
    each_is_written_once(spark, world, stage, load)


def test_of_two_drivers_that_begin_at_once_one_goes_on_and_no_event_is_written_twice(spark, world):
    for number in range(rounds(1, 20)):
        stage = world.stage(f"enrich-{number}", [], profile="realtime", slots=1)
        drivers = running(spark, world, stage), running(spark, world, stage)
        with Load(world, stage) as load, drivers[0] as one, drivers[1] as other:
            wait_until(lambda: one.error or other.error, what="the end of one")
            fenced, still = (one, other) if one.error else (other, one)
            goes_on_alone(world, stage, load.sent + 200, still, shut_out=fenced)
        each_is_written_once(spark, world, stage, load)


def test_a_first_start_goes_on_where_another_driver_has_come_to_meanwhile(spark, world, plain, monkeypatch):
    preload, has_ended = preloading.preload, threading.Event()

    def another_is_faster(*arguments):
        monkeypatch.setattr(stage_run, "preload", preload)
        world.send(plain, [{"id": number} for number in range(10)])
        with running(spark, world, plain) as other:
            until(world, plain, 10, other)
            other.stop.set()
            assert other.end() is None
        has_ended.set()
        return preload(*arguments)

    monkeypatch.setattr(stage_run, "preload", another_is_faster)
    with running(spark, world, plain) as run:
        assert has_ended.wait(GUARD_S)
        world.send(plain, [{"id": number} for number in range(10, 15)])
        until(world, plain, 15, run)
        run.stop.set()
        assert run.end() is None
    assert world.ids(plain) == Counter(range(15))


def move_to_another(world, stage):
    """As another driver does it, with the partition 0."""
    group, partition = world.progress(stage).group, (world.topic(f"{stage}.in"), 0)
    (slot,) = {each.slot for each in notes(world, group, [partition])}
    with (
        closing(TransactionalProducer(world.cluster.connection, transactional_id(group, slot))) as producer,
        closing(new_assigned_consumer(world.cluster.connection, group)) as consumer,
    ):
        producer.start()
        with producer.transaction():
            (commit,) = commits_of(consumer, group, [partition]).values()
            offset = TopicPartition(*partition, commit.offset, Note("another.1", slot).to_text())
            producer.send_offsets([offset], consumer.consumer_group_metadata())


def test_a_driver_that_stood_still_while_another_took_over_does_not_take_its_slots_back(spark, world, plain):
    world.send(plain, [{"id": 0}])
    with running(spark, world, plain) as run:
        until(world, plain, 1, run)
        newer = world.progress(plain)
        newer.take_over()
        move_to_another(world, plain)
        assert isinstance(run.end(), Fenced)
    assert [each.run for each in notes(world, newer.group, [(world.topic("enrich.in"), 0)])] == ["another.1"]


def test_partitions_that_an_older_driver_has_moved_too_late_are_taken_back(spark, world, plain):
    world.send(plain, [{"id": number} for number in range(10)])
    with running(spark, world, plain) as run:
        until(world, plain, 10, run)
        move_to_another(world, plain)
        world.send(plain, [{"id": number} for number in range(10, 20)])
        until(world, plain, 20, run)
        run.stop.set()
        assert run.end() is None
    assert world.ids(plain) == Counter(range(20))


def test_what_a_killed_slot_has_left_open_holds_up_no_start(spark, world, plain):
    world.send(plain, [{"id": 0}])
    with running(spark, world, plain) as run:
        until(world, plain, 1, run)
        run.stop.set()
        assert run.end() is None
    group, source = world.progress(plain).group, world.topic("enrich.in")
    killed = TransactionalProducer(world.cluster.connection, transactional_id(group, 0))
    killed.start()
    killed.client.begin_transaction()
    with closing(new_assigned_consumer(world.cluster.connection, group)) as consumer:
        offsets = [TopicPartition(source, number, 1_000) for number in range(2)]
        killed.send_offsets(offsets, consumer.consumer_group_metadata())
    world.send(plain, [{"id": 1}])
    with running(spark, world, plain) as run:
        until(world, plain, 2, run)
    assert world.ids(plain) == Counter(range(2))


def test_a_slot_that_starts_while_it_is_taken_over_does_not_end_the_stage(spark, world, plain, monkeypatch):
    """A worker's start is slow. It may come after its job has failed, and the driver has begun the next one."""
    world.send(plain, [{"id": 0}])
    with running(spark, world, plain) as run:
        until(world, plain, 1, run)
        run.stop.set()
        assert run.end() is None
    late: list[TransactionalProducer] = []
    group = world.progress(plain).group

    def read(*arguments):
        commits = commits_of(*arguments)
        if not late:
            late.append(TransactionalProducer(world.cluster.connection, transactional_id(group, 0)))
            late[0].start()
        return commits

    monkeypatch.setattr(taking_over, "commits_of", read)
    world.send(plain, [{"id": 1}])
    with running(spark, world, plain) as run:
        until(world, plain, 2, run)
    assert late
    assert world.ids(plain) == Counter(range(2))


def test_a_slot_that_starts_when_batches_have_taken_over_does_not_do_their_events(spark, world, plain, monkeypatch):
    world.send(plain, [{"id": number} for number in range(10)])
    section, may_begin = world.document["stages"][plain], threading.Event()
    begin = BatchFlow.begin

    class Late(SlotJob):
        def __init__(self, *given):
            assert may_begin.wait(GUARD_S)
            super().__init__(*given)

    monkeypatch.setattr(slots, "SlotJob", Late)
    with ExitStack() as held:
        held.callback(may_begin.set)
        older = held.enter_context(running(spark, world, plain))
        partitions = each_partition({world.topic(f"{plain}.in"): [0, 1]})
        wait_until(lambda: len(notes(world, world.progress(plain).group, partitions)) == 2, what="the notes of slots")

        def begin_after_the_slot(*given):
            may_begin.set()
            wait_until(lambda: older.error is not None or len(world.seen(plain)) == 10, what="what the slot does")
            begin(*given)

        monkeypatch.setattr(BatchFlow, "begin", begin_after_the_slot)
        section |= {"profile": "latency", "checkpoint": f"{section['checkpoint']}-latency"}
        newer = held.enter_context(running(spark, world, plain, From.parse("group")))
        until(world, plain, 10, newer)
        world.send(plain, [{"id": 10}])
        until(world, plain, 11, newer)
        assert isinstance(older.end(), Fenced)
    assert world.ids(plain) == Counter(range(11))


def test_partitions_that_are_added_are_read(spark, world, plain, monkeypatch):
    monkeypatch.setattr(slots, "_TOPICS_EVERY_S", 0.5)
    source = world.topic("enrich.in")
    world.send(plain, [{"id": 0}])
    with running(spark, world, plain) as run:
        until(world, plain, 1, run)
        world.cluster.topics.grow(source, 5)
        wait_until(lambda: len(world.cluster.topics.partitions(source)) == 5, what="the partitions")
        world.send(plain, [{"id": number} for number in range(1, 100)])
        until(world, plain, 100, run)
        mark = json.loads((Path(world.document["stages"][plain]["checkpoint"]) / MARK).read_text())
        assert mark["known"] == {source: 5}
        assert mark["begins"] is None
    assert world.ids(plain) == Counter(range(100))


def test_events_that_the_brokers_deleted_of_a_new_partition_are_told(spark, world, plain):
    source, admin = world.topic("enrich.in"), world.cluster.topics._admin
    world.send(plain, [{"id": 0}])
    with running(spark, world, plain) as run:
        until(world, plain, 1, run)
        run.stop.set()
        assert run.end() is None
    world.cluster.topics.grow(source, 3)
    wait_until(lambda: 2 in when_reachable(lambda: world.cluster.topics.end_offsets(source)), what="the partition")
    producer = new_producer(world.cluster.connection)
    for number in range(1, 11):
        producer.produce(source, json.dumps({"id": number}).encode(), partition=2)
    assert producer.flush(GUARD_S) == 0
    (deleted,) = admin.delete_records([TopicPartition(source, 2, 4)]).values()
    deleted.result(GUARD_S)
    error = Run(spark, world, plain).end()
    assert isinstance(error, WouldLoseData), error
    assert "deleted 4 events of a new partition" in error.what
    world.lose_checkpoint(plain)
    with running(spark, world, plain, From.parse("group")) as run:
        until(world, plain, 7, run)
    assert world.ids(plain) == Counter([0, *range(5, 11)])


def test_a_stage_has_no_more_slots_than_it_is_given(spark, world):
    stage = world.stage("enrich", [], profile="realtime", slots=1)
    world.send(stage, [{"id": number} for number in range(20)])
    with running(spark, world, stage) as run:
        until(world, stage, 20, run)
    partitions = [(world.topic("enrich.in"), number) for number in range(2)]
    assert [each.slot for each in notes(world, world.progress(stage).group, partitions)] == [0, 0]


def test_brokers_that_stand_still_are_waited_for(spark, world, stage):
    with running(spark, world, stage) as run:
        world.send(stage, [{"id": 0}])
        until(world, stage, 1, run)
        with world.cluster.brokers_away():
            assert run.error is None
        world.send(stage, [{"id": 1}])
        until(world, stage, 2, run)
    assert world.ids(stage) == Counter(range(2))


def test_workers_that_die_while_the_brokers_are_away_are_replaced_once_these_are_back(spark, world, stage, caplog):
    with running(spark, world, stage) as run:
        world.send(stage, [{"id": 0}])
        until(world, stage, 1, run)
        with world.cluster.brokers_away():
            for worker in python_workers(os.getpid()):
                kill(worker)
            wait_until(lambda: run.error or "the slots cannot begin now" in caplog.text, what="a try")
            assert run.error is None
        when_reachable(lambda: world.ids(stage))
        world.send(stage, [{"id": 1}])
        until(world, stage, 2, run)
    assert world.ids(stage) == Counter(range(2))


def test_a_stage_ends_when_it_is_told_to_also_while_the_brokers_are_away(spark, world, stage):
    world.send(stage, [{"id": 0}])
    with running(spark, world, stage) as run:
        until(world, stage, 1, run)
        with world.cluster.brokers_away():
            run.stop.set()
            assert run.end() is None
        when_reachable(lambda: world.ids(stage))
        world.send(stage, [{"id": 1}])
    with running(spark, world, stage) as run:
        until(world, stage, 2, run)
    assert world.ids(stage) == Counter(range(2))


def test_poison_without_a_dlq_ends_the_stage_naming_the_event(spark, world):
    world.users()
    stage = world.stage("enrich", [LOOKUP], profile="realtime", dlq=False)
    world.send(stage, [b"garbage"])
    error = Run(spark, world, stage).end()
    assert isinstance(error, BadRecord)
    assert str(error.where).startswith(f"topic/partition/offset {world.topic('enrich.in')}/")


def test_an_event_as_large_as_its_topic_takes_is_written(spark, world, stage):
    producer = new_producer(world.cluster.connection, **{"message.max.bytes": 2_000_000})
    producer.produce(world.topic("enrich.in"), json.dumps({"id": 0, "text": "x" * 1_020_000}).encode())
    assert producer.flush(GUARD_S) == 0
    with running(spark, world, stage) as run:
        until(world, stage, 1, run)
    assert not world.dead_letters(stage)


@pytest.mark.parametrize("count", [1, 2])
def test_a_partition_whose_slot_was_shut_out_by_nobody_is_read_again(spark, world, count, monkeypatch):
    """As when its transaction has timed out, since its machine stood still."""
    plain = world.stage("enrich", [], profile="realtime", slots=count)
    monkeypatch.setattr(slots, "_LACKING_S", 1.0)
    monkeypatch.setattr(slots, "_TOPICS_EVERY_S", 0.5)
    with running(spark, world, plain) as run:
        for number in range(2):
            world.send(plain, [{"id": 10 * number + each} for each in range(10)])
            until(world, plain, 10 * (number + 1), run)
            if number == 0:
                # Somebody becomes one slot, for whatever reason.
                group = world.progress(plain).group
                with closing(TransactionalProducer(world.cluster.connection, transactional_id(group, 0))) as thief:
                    thief.start()
    assert world.ids(plain) == Counter(range(20))


def test_a_group_that_is_deleted_under_a_running_stage_makes_it_read_nothing_again(spark, world, plain, monkeypatch):
    """Brokers know of no member of it, and so they delete it if they are asked to."""
    monkeypatch.setattr(slots, "_LACKING_S", 1.0)
    monkeypatch.setattr(slots, "_TOPICS_EVERY_S", 0.5)
    group, connection = world.progress(plain).group, world.cluster.connection
    world.send(plain, [{"id": number} for number in range(10)])
    with running(spark, world, plain) as run:
        until(world, plain, 10, run)
        with ExitStack() as thieves:
            for number in range(2):  # the slots end, and do not commit their offsets again
                thief = thieves.enter_context(
                    closing(TransactionalProducer(connection, transactional_id(group, number)))
                )
                thief.start()
            world.cluster.topics._admin.delete_consumer_groups([group])[group].result(GUARD_S)
        assert isinstance(run.end(), WouldLoseData), run.error
    assert "has no offsets any more" in str(run.error)
    assert world.ids(plain) == Counter(range(10))


def test_slots_begin_again_when_executors_have_come(spark, world, plain, monkeypatch):
    cores = 1
    monkeypatch.setattr(slots, "slots_of", lambda _: cores)
    monkeypatch.setattr(slots, "_LACKING_S", 0.5)
    monkeypatch.setattr(slots, "_TOPICS_EVERY_S", 0.2)
    group, partitions = world.progress(plain).group, [(world.topic("enrich.in"), number) for number in range(2)]
    world.send(plain, [{"id": number} for number in range(10)])
    with running(spark, world, plain) as run:
        until(world, plain, 10, run)
        assert {each.slot for each in notes(world, group, partitions)} == {0}
        cores = 2
        wait_until(lambda: len({each.slot for each in notes(world, group, partitions)}) == 2, what="two slots")
        world.send(plain, [{"id": number} for number in range(10, 20)])
        until(world, plain, 20, run)
    assert world.ids(plain) == Counter(range(20))


def test_offsets_go_beyond_the_markers_of_transactions(spark, world, plain):
    """Otherwise a source that ends with one seems never to be read to its end; and once it is deleted, lost."""
    source = world.topic("enrich.in")
    with closing(TransactionalProducer(world.cluster.connection, source)) as producer:
        producer.start()
        with producer.transaction():
            keys = [b"%d" % number for number in range(20)]
            producer.produce(source, keys, [b'{"id":%s}' % key for key in keys])
    with running(spark, world, plain) as run:
        until(world, plain, 20, run)
        ends = world.cluster.topics.end_offsets(source)
        assert sum(ends.values()) > 20
        wait_until(lambda: world.committed(plain) == ends, what="the ends in the group")


def test_batches_are_no_larger_than_what_the_topic_takes(spark, world):
    world.topic("enrich.out", max_message_bytes="20000")
    plain = world.stage("enrich", [], profile="realtime")
    source = random_source("what no codec makes smaller")
    world.send(plain, [{"id": number, "text": source.randbytes(200).hex()} for number in range(2_000)])
    with running(spark, world, plain) as run:
        until(world, plain, 2_000, run)
    assert world.ids(plain) == Counter(range(2_000))


def test_where_to_begin_may_be_said_again_if_the_first_start_came_no_further(spark, world, plain, monkeypatch):
    world.send(plain, [{"id": 0}])

    def refused(*_):
        raise ConfigError("this user has not the rights")

    with monkeypatch.context() as patch:
        patch.setattr(slots, "take_over", refused)
        assert isinstance(Run(spark, world, plain, From.parse("latest")).end(), ConfigError)
    with running(spark, world, plain, From.parse("earliest")) as run:
        until(world, plain, 1, run)


def test_the_place_where_a_first_start_would_have_begun_is_one_of_this_topic(spark, world, plain, monkeypatch):
    world.send(plain, [{"id": number} for number in range(10)])

    def refused(*_):
        raise ConfigError("this user has not the rights")

    with monkeypatch.context() as patch:
        patch.setattr(slots, "take_over", refused)
        assert isinstance(Run(spark, world, plain, From.parse("latest")).end(), ConfigError)
    world.cluster.make_again(world.topic("enrich.in"), partitions=2)
    world.send(plain, [{"id": number} for number in range(20)])
    error = Run(spark, world, plain).end()
    assert isinstance(error, WouldLoseData), error
    assert "recreated" in error.what
    with running(spark, world, plain, From.parse("earliest")) as run:
        until(world, plain, 20, run)


def test_a_stop_before_spark_knows_of_the_slots_ends_them(spark, world, plain, monkeypatch, caplog):
    cancelled = threading.Event()
    cancel, work = SlotJob._cancel, SlotJob._run

    def cancel_and_tell(job):
        cancel(job)
        cancelled.set()

    def work_late(job):
        assert cancelled.wait(GUARD_S)
        work(job)

    def begin_and_stop(flow, begin=slots.SlotFlow._begin_job):
        begin(flow)
        run.stop.set()

    monkeypatch.setattr(SlotJob, "_cancel", cancel_and_tell)
    monkeypatch.setattr(SlotJob, "_run", work_late)
    monkeypatch.setattr(slots.SlotFlow, "_begin_job", begin_and_stop)
    run = Run(spark, world, plain)
    assert run.end() is None
    assert "the slots do not end" not in caplog.text


def test_a_topic_that_is_made_again_ends_the_stage(spark, world, plain):
    source = world.topic("enrich.in")
    world.send(plain, [{"id": 0}])
    with running(spark, world, plain) as run:
        until(world, plain, 1, run)
        world.cluster.make_again(source, partitions=2)
        assert isinstance(run.end(), WouldLoseData)
    with pytest.raises(WouldLoseData, match="recreated"):
        raise Run(spark, world, plain).end()


def test_events_that_wait_for_their_rows_hold_up_their_own_partition_alone(spark, world):
    world.users()
    lookup = {**LOOKUP, "on_miss": "wait", "then": "dlq"}
    stage = world.stage("enrich", [lookup], profile="realtime", event_time="ts")
    producer = new_producer(world.cluster.connection)

    def send(number, user, at, partition):
        event = {"id": number, "user_id": user, "ts": at.isoformat()}
        producer.produce(world.topic("enrich.in"), json.dumps(event).encode(), partition=partition)
        producer.flush()

    with running(spark, world, stage) as run:
        send(0, "ann", datetime.now(UTC), 0)
        until(world, stage, 1, run)
        later = datetime.now(UTC) + timedelta(seconds=6)
        send(1, "new", later, 0)
        for number in range(2, 40):
            send(number, "ann", datetime.now(UTC), number % 2)
        # Those of the other partition go on meanwhile.
        wait_until(lambda: set(range(3, 40, 2)) <= set(world.ids(stage)), what="the other partition's events")
        assert not set(world.ids(stage)) & {1, *range(2, 40, 2)}
        world.put("users", {"new": {"plan": "late", "region": None}})
        until(world, stage, 40, run)
    assert world.ids(stage) == Counter(range(40))
    assert {event["id"]: event["user"]["plan"] for event in world.output(stage)}[1] == "late"


def test_an_event_waits_for_its_row_of_a_table_on_demand_and_holds_up_its_partition_alone(spark, world):
    producer = new_producer(world.cluster.connection)

    def send(number, user, partition):
        producer.produce(world.topic("enrich.in"), b'{"id":%d,"user_id":"%s"}' % (number, user), partition=partition)
        producer.flush()

    with rows_by_key(ann={"plan": "free"}, bob={"plan": "pro"}) as rows:
        accounts = {"loader": {"http": rows.url}, "on_demand": True, "columns": "plan string"}
        world.document["tables"] = {"accounts": accounts}
        lookup = {"table": "accounts", "key": "user_id", "as": "account", "on_miss": "wait", "then": "dlq"}
        stage = world.stage("enrich", [lookup], profile="realtime")
        with running(spark, world, stage) as run:
            send(0, b"ann", 0)
            until(world, stage, 1, run)
            rows.gate.clear()
            send(1, b"bob", 0)
            send(2, b"nobody", 0)
            wait_until(lambda: rows.asked["bob"], what="the question for the row")
            for number in range(3, 40):
                send(number, b"ann", number % 2)
            wait_until(lambda: set(range(3, 40, 2)) <= set(world.ids(stage)), what="the other partition's events")
            assert not set(world.ids(stage)) & {1, 2, *range(4, 40, 2)}
            rows.gate.set()
            until(world, stage, 39, run)
            wait_until(lambda: world.dead_letters(stage), what="the event without a row")
    assert world.ids(stage) == Counter({*range(40)} - {2})
    assert {event["id"]: event["account"] for event in world.output(stage)}[1] == {"plan": "pro"}
    assert rows.asked == {"ann": 1, "bob": 1, "nobody": 1}


def test_speculation_is_refused(world, stage):
    with running_stage(world, stage, "--conf", "spark.speculation=True") as running:
        assert running.end() == 2, running.told()
    assert "spark.speculation begins slow tasks twice" in running.told()
