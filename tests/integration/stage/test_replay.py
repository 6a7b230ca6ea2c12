"""`replay: deterministic`: a repeated batch makes the same records, byte for byte, or the stage says why not."""

import json
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError, Unreachable, WouldLoseData
from enrich.config import OnStale, Then
from enrich.kafka import Topics
from enrich.stage.plan.plan import StagePlan
from enrich.stage.progress import pinning
from enrich.stage.progress.checkpoint import Checkpoint
from enrich.stage.progress.pinning import PinBook, TableEnds
from enrich.stage.task.failures import from_report
from enrich.stage.task.freshness import FreshnessRule, freshness_rules
from enrich.stage.task.pin import Pin, PinnedTable
from tests.support.clock import ManualClock
from tests.support.stage.frames import source_of
from tests.support.stage.runs import LOOKUP, Run, running
from tests.support.waiting import GUARD_S, wait_until

NEVER_COMPACTED = {"min_compaction_lag_ms": str(86_400_000)}


def deterministic(world, **section):
    """A stage over `users`, with all that depends on the rows: output, lineage, dead letters, what is written back."""
    writeback = {"topic": world.topic("back"), "value": "struct(user_id)"}
    more = {"replay": "deterministic", "lineage": True, "writeback": writeback, **section}
    return world.stage("enrich", [{**LOOKUP, "on_miss": "dlq"}], **more)


def send(world, stage, first):
    users = ["ann", "bob", "gone", "nobody", "new"]
    world.send(stage, [{"id": number, "user_id": users[number % 5]} for number in range(first, first + 20)])


def change(world, plan):
    world.put("users", {"ann": {"plan": plan, "region": "x"}, "bob": None, "new": {"plan": plan, "region": "x"}})


def made(world, stage):
    """All records of all topics of the stage, in any order."""
    topics = [world.topic(name) for name in (f"{stage}.out", f"{stage}.dlq", "back")]
    messages = [message for topic in topics for message in world.cluster.messages(topic)]
    return Counter((m.topic(), m.partition(), m.key(), m.value(), str(m.headers())) for m in messages)


def run(spark, world, stage, records, **options):
    with running(spark, world, stage, **options) as started:

        def all_there():
            assert started.error is None, started.error
            return world.records(stage) >= records

        wait_until(all_there, what=f"{records} records")
        started.stop.set()
        assert started.end() is None


def folder(world, stage):
    return Path(world.document["stages"][stage]["checkpoint"])


def last_batch(world, stage):
    return max(int(path.name) for path in (folder(world, stage) / "offsets").iterdir() if path.name.isdigit())


def take_back(world, stage, name="commits"):
    """As if the driver had been killed before this was recorded of the last batch. Returns its number."""
    batch = last_batch(world, stage)
    for path in (folder(world, stage) / name).iterdir():
        if path.name in (str(batch), f".{batch}.crc"):
            path.unlink()
    return batch


def plans(world, stage):
    return {event["user"]["plan"] for event in world.output(stage) if event["user_id"] == "ann"}


def test_a_batch_is_repeated_as_it_was_though_its_tables_change_and_the_store_is_wiped(spark, world):
    world.users(history="1h", config=NEVER_COMPACTED)
    stage = deterministic(world)
    send(world, stage, 0)
    run(spark, world, stage, 20)
    once = made(world, stage)
    for plan, wiped in (("pro", False), ("max", True)):
        change(world, plan)
        take_back(world, stage)
        if wiped:
            world.wipe_store()
        before = world.records(stage)
        run(spark, world, stage, before + 20)
    assert made(world, stage) == Counter({record: 3 * copies for record, copies in once.items()})
    send(world, stage, 20)
    run(spark, world, stage, 80)
    assert plans(world, stage) == {"free", "max"}


def test_without_pins_the_repeated_batch_is_another(spark, world):
    world.users(history="1h")
    stage = deterministic(world, replay="latest")
    send(world, stage, 0)
    run(spark, world, stage, 20)
    once = made(world, stage)
    change(world, "pro")
    take_back(world, stage)
    run(spark, world, stage, 40)
    assert made(world, stage) != Counter({record: 2 * copies for record, copies in once.items()})


def test_an_expired_pin_ends_the_stage_and_names_what_accepts_a_new_one(spark, world):
    world.users(history="1h")
    stage = deterministic(world)
    send(world, stage, 0)
    run(spark, world, stage, 20)
    change(world, "pro")
    take_back(world, stage)
    world.wipe_store()  # what the topic kept of the past, nothing proves
    error = Run(spark, world, stage).end()
    assert isinstance(error, WouldLoseData), error
    assert "expired" in error.what
    assert "--new-pin" in str(error.next_step)
    assert error.where == "table users"
    assert world.records(stage) == 20
    run(spark, world, stage, 40, new_pin=True)
    assert plans(world, stage) == {"free", "pro"}


def test_a_table_topic_that_was_recreated_has_no_pins(spark, world):
    world.users(history="1h")
    stage = deterministic(world)
    send(world, stage, 0)
    run(spark, world, stage, 20)
    take_back(world, stage)
    world.cluster.make_again(world.topic("table.users"), partitions=2)
    change(world, "pro")
    error = Run(spark, world, stage).end()
    assert isinstance(error, WouldLoseData), error
    assert "recreated" in error.what


def test_a_batch_has_no_pin_of_a_table_that_is_looked_up_only_since_it_began(spark, world):
    world.users(history="1h")
    stage = deterministic(world)
    send(world, stage, 0)
    run(spark, world, stage, 20)
    take_back(world, stage)
    world.table("more", "plan string", {"ann": {"plan": "free"}}, history="1h")
    world.document["stages"][stage]["lookups"].append({"table": "more", "key": "user_id", "as": "more"})
    error = Run(spark, world, stage).end()
    assert isinstance(error, WouldLoseData), error
    assert "--new-pin" in str(error.next_step)
    assert error.where == "table more"
    run(spark, world, stage, 40, new_pin=True)


def test_a_pin_is_void_when_its_batch_stands_for_other_events(spark, world):
    world.users(history="1h")
    stage = deterministic(world)
    send(world, stage, 0)
    run(spark, world, stage, 20)
    send(world, stage, 20)
    run(spark, world, stage, 40)
    change(world, "pro")
    send(world, stage, 40)
    assert take_back(world, stage, "offsets") == take_back_of_commits(world, stage)
    run(spark, world, stage, 80)
    plan_of = {event["id"]: event["user"]["plan"] for event in world.output(stage) if event["user_id"] == "ann"}
    assert {number: plan for number, plan in plan_of.items() if number >= 40} == dict.fromkeys(range(40, 60, 5), "pro")


def take_back_of_commits(world, stage):
    commits = folder(world, stage) / "commits"
    batch = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for name in (str(batch), f".{batch}.crc"):
        (commits / name).unlink(missing_ok=True)
    return batch


def test_a_stage_may_change_to_deterministic_and_back_after_a_drain(spark, world):
    world.users(history="1h")
    stage = deterministic(world)
    # The progress of `latest` stands in memory only, but for the first batch.
    rarely = {"asyncProgressTrackingCheckpointIntervalMs": 600_000}
    for number, replay in enumerate(["latest", "deterministic", "latest", "deterministic"]):
        world.document["stages"][stage] |= {"replay": replay, "settings": rarely if replay == "latest" else {}}
        with running(spark, world, stage) as started:
            for part in range(3):
                send(world, stage, (3 * number + part) * 20)
                until_all_records(world, stage, (3 * number + part + 1) * 20, started)
            started.stop.set()
            assert started.end() is None
    assert world.records(stage) == 240
    assert max(world.ids(stage).values()) == 1


def until_all_records(world, stage, number, started):
    def all_there():
        assert started.error is None, started.error
        return world.records(stage) >= number

    wait_until(all_there, what=f"{number} records")


def test_old_pins_go_with_what_spark_goes_back_to(spark, tmp_path):
    checkpoint = Checkpoint(spark, str(tmp_path))
    pins = PinBook(checkpoint, retained=3)
    for batch in range(60):
        assert checkpoint.create(f"enrich-pins/{batch}", "{}")
    pins.clean(49)
    assert checkpoint.batches("enrich-pins") == list(range(60))
    pins.clean(59)
    assert checkpoint.batches("enrich-pins") == [56, 57, 58, 59]
    assert not checkpoint.create("enrich-pins/59", "other")
    assert checkpoint.read("enrich-pins/59") == "{}"


def test_a_checkpoint_of_a_killed_stage_with_replay_latest_is_refused(spark, tmp_path):
    checkpoint = Checkpoint(spark, str(tmp_path))
    for batch in (3, 7):
        checkpoint.write(f"offsets/{batch}", "v1")
    with pytest.raises(ConfigError, match="killed while it ran with replay: latest"):
        PinBook(checkpoint, retained=3).require_kept_progress()


@pytest.fixture
def pinned_world(world):
    world.users(history="1h", freshness={"deadline": "3s"}, config=NEVER_COMPACTED)
    world.stage("enrich", [{**LOOKUP, "as_of": True}], event_time="ts", lineage=True)
    world.stage("latest", [LOOKUP], lineage=True)
    return world


def pin_of(world, *, more=0, time_ms=None):
    topic = world.topic("table.users")
    ends = {partition: end + more for partition, end in world.cluster.topics.end_offsets(topic).items()}
    table = PinnedTable(world.cluster.topics.topic_id(topic), ends)
    return Pin(time_ms or time.time_ns() // 10**6, {"users": table})


def answers(spark, world, stage, pin, *events):
    plan = StagePlan(spark, world.pipeline, stage)
    rows = plan.records(source_of(spark, [json.dumps(event).encode() for event in events]), pin).collect()
    return [json.loads(row.value) for row in rows]


def test_workers_wait_for_the_rows_of_the_pin_and_say_so_at_the_deadline(spark, pinned_world):
    with pytest.raises(Exception) as raised:
        answers(spark, pinned_world, "latest", pin_of(pinned_world, more=1), {"user_id": "ann"})
    told = from_report(str(raised.value))
    assert isinstance(told, Unreachable)
    assert "records of the batch's pin are still missing" in told.what
    pin = pin_of(pinned_world)
    change(pinned_world, "pro")
    (before,) = answers(spark, pinned_world, "latest", pin, {"user_id": "ann"})
    (after,) = answers(spark, pinned_world, "latest", pin_of(pinned_world), {"user_id": "ann"})
    assert (before["user"]["plan"], after["user"]["plan"]) == ("free", "pro")


def test_rows_of_another_topic_than_the_pins_are_no_answer(spark, pinned_world):
    pin = pin_of(pinned_world)
    of_the_next = replace(pin, tables={"users": replace(pin.tables["users"], topic_id="another-id")})
    assert len(answers(spark, pinned_world, "latest", pin, {"user_id": "ann"})) == 1
    with pytest.raises(Exception) as raised:
        answers(spark, pinned_world, "latest", of_the_next, {"user_id": "ann"})
    told = from_report(str(raised.value))
    assert isinstance(told, Unreachable)
    assert "recreated" in told.what


def test_a_topic_that_was_deleted_has_no_pin_any_more(pinned_world):
    pipeline, topic = pinned_world.pipeline, pinned_world.topic("table.users")
    rules = [replace(rule, deadline_s=0.5) for rule in freshness_rules(pipeline, ["users"])]
    with closing(TableEnds({"users": topic}, rules, pinned_world.cluster.connection)) as ends:
        wait_until(lambda: asked(ends) is not None, what="the first pin")
        pinned_world.cluster.topics.delete(topic)
        wait_until(lambda: asked(ends) is None, what="that there is no pin")


def test_a_pin_has_no_ends_of_a_topic_that_was_recreated_while_they_were_asked_for(cluster, new_topic, monkeypatch):
    topic, real = new_topic(cleanup_policy="compact"), Topics._list_offsets
    made: list[str] = []
    cluster.produce(topic, [(b"ann", b"{}"), (b"bob", b"{}")])

    def recreated_before(self, request, *how):
        if not made and topic in {one.topic for one in request}:
            made.append(topic)
            cluster.make_again(topic)
            cluster.produce(topic, [(b"new", b"{}")])
        return real(self, request, *how)

    monkeypatch.setattr(Topics, "_list_offsets", recreated_before)
    rules = [FreshnessRule("users", GUARD_S, None, OnStale.mark, Then.mark, history_ms=3_600_000)]
    with closing(TableEnds({"users": topic}, rules, cluster.connection)) as ends:
        pin = ends.newest().tables["users"]
    assert (pin.topic_id, pin.offsets) == (cluster.topics.topic_id(topic), {0: 1})


class OneAnswer:
    """The brokers take a second to give the ends, and give them once."""

    def __init__(self, monkeypatch):
        self.clock = ManualClock()
        self.asked_ms = self.clock.now_ms()
        ends, left = Topics.ends, [None]

        def ends_once(topics, names):
            if not left:
                raise Unreachable("no answer")
            left.pop()
            self.clock.advance(1_000)
            return ends(topics, names)

        monkeypatch.setattr(Topics, "ends", ends_once)
        monkeypatch.setattr(pinning, "SystemClock", lambda: self.clock)


def test_a_pin_is_of_a_moment_before_its_ends_were_asked_for(cluster, topic, monkeypatch):
    """What it may see of the past is reckoned from it."""
    brokers = OneAnswer(monkeypatch)
    rules = [FreshnessRule("users", GUARD_S, None, OnStale.mark, Then.mark, history_ms=3_600_000)]
    with closing(TableEnds({"users": topic}, rules, cluster.connection)) as ends:
        pin = ends.newest()
    assert pin.time_ms == brokers.asked_ms
    assert pin.tables["users"].oldest_ms == brokers.asked_ms - 1_800_000


def test_a_pin_that_is_older_than_the_rows_of_its_tables_may_be_is_none(cluster, topic, monkeypatch):
    """A batch would be given rows that its stage calls too old."""
    brokers = OneAnswer(monkeypatch)
    rules = [FreshnessRule("users", 5.0, 60_000, OnStale.wait, Then.fail)]
    with closing(TableEnds({"users": topic}, rules, cluster.connection)) as ends:
        assert ends.newest().time_ms == brokers.asked_ms
        brokers.clock.advance(59_000)
        assert ends.newest().time_ms == brokers.asked_ms
        brokers.clock.advance(1)
        with pytest.raises(Unreachable, match="did not give the tables' end offsets"):
            ends.newest()


def asked(ends):
    try:
        return ends.newest()
    except Unreachable:
        return None


def test_times_before_half_of_the_history_are_expired_whatever_the_host_still_has(spark, pinned_world):
    in_an_hour = time.time_ns() // 10**6 + 3_600_000
    later = pin_of(pinned_world, time_ms=in_an_hour)
    now = {"user_id": "ann", "ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    (hit,) = answers(spark, pinned_world, "enrich", pin_of(pinned_world), now)
    (old,) = answers(spark, pinned_world, "enrich", later, now)
    assert hit["_lineage"]["user"]["status"] in ("hit", "miss")
    assert old["user"] is None
    assert old["_lineage"]["user"] == {
        "table": "users",
        "partition": None,
        "offset": None,
        "timestamp": None,
        "status": "expired",
    }
