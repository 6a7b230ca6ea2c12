"""What a stage writes back: records that the sync service understands, and brings to Redis in the right order."""

import json
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
import pytest
import redis

from enrich.base.errors import ConfigError, Retryable
from enrich.stage.progress.starting import From
from enrich.stage.task.failures import from_report
from stores.keys import key_bytes
from tests.support.stage.frames import records, seen, written_back
from tests.support.stage.runs import Run, running
from tests.support.stage.world import StageWorld
from tests.support.sync.service import running as syncing
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def spellings(cluster, tmp_path_factory):
    """A world whose stages run over frames, not over Kafka."""
    world = StageWorld(cluster, tmp_path_factory.mktemp("writeback"))
    yield world
    world.close()


def writing_back(world, name, **section):
    section = {"topic": world.topic("all.back"), "value": "ip", **section}
    return world.stage(name, [], topics="all", writeback=section)


def back_of(spark, world, stage, events, **limits):
    """Key, value and version of what is written back, and what else becomes of each event."""
    texts = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    back, others = written_back(records(spark, world, stage, texts, **limits).collect(), world.topic("all.back"))
    rows = [(row.key and bytes(row.key), row.value and bytes(row.value), dict(row.headers)) for row in back]
    return [(key, value, int(headers["enrich.version"])) for key, value, headers in rows], seen(others)


def test_keys_are_those_that_lookups_ask_for_and_a_null_part_writes_nothing(spark, spellings):
    stage = writing_back(spellings, "keys", key=["user_id", "length(ip)", "ip = 'x'"], version="ts")
    control = "".join(map(chr, range(0x20)))
    users = ["ann", 'q"uo\\te', "tab\tand\x01", control, "\\u001F\x1f\x1f\\\\\x0b", "ünï 😀", "", None]
    events = [{"user_id": user, "ip": "x", "ts": "2026-01-01T00:00:00Z"} for user in users]
    back, others = back_of(spark, spellings, stage, events)
    parts = [pa.array(users[:-1]), pa.array([1] * 7), pa.array([True] * 7)]
    assert {key for key, _, _ in back} == set(key_bytes(pa.StructArray.from_arrays(parts, list("abc"))).to_pylist())
    assert {topic for topic, _, _ in others.values()} == {"out"}
    assert len(others) == len(users)


def test_values_are_objects_text_bytes_or_null_for_a_tombstone(spark, spellings):
    event = {"user_id": "ann", "ip": "é", "ts": "2026-01-01T00:00:00.25Z"}
    wanted = {
        "struct(ts, ip, null AS none)": '{"ts":"2026-01-01T00:00:00.250000Z","ip":"é","none":null}'.encode(),
        "array(ip)": '["é"]'.encode(),
        "ip": "é".encode(),
        "unhex('00ff')": b"\x00\xff",
        "1 + 1": b"2",
        "nullif(ip, 'é')": None,
    }
    for value, bytes_ in wanted.items():
        stage = writing_back(spellings, "values", value=value, version="ts")
        ((key, made, version),), _ = back_of(spark, spellings, stage, [event])
        assert (key, made, version) == (b"k0", bytes_, 1_767_225_600_250_000)


def test_an_event_whose_record_has_no_version_or_is_too_large_is_dead_as_a_whole(spark, spellings):
    stage = writing_back(spellings, "dead", key="user_id", version="length(ip) - 2")
    events = [
        {"user_id": "a"},
        {"user_id": "b", "ip": "1"},
        {"user_id": "c", "ip": "123"},
        {"ip": "1"},
        {"user_id": "d", "ip": "x" * 3_000},
        b"no json",
    ]
    back, others = back_of(spark, spellings, stage, events, writeback=3_000)
    assert back == [(b"c", b"123", 1)]
    fates = {
        number: (topic, headers.get("enrich.reason", b"").decode()) for number, (topic, _, headers) in others.items()
    }
    no_version = ("dlq", f"the write-back's version is null, or not between 0 and {2**53}")
    assert fates[0] == fates[1] == no_version
    assert (fates[2][0], fates[3][0]) == ("out", "out")
    assert fates[4] == ("dlq", "the record to write back is too large for its topic")
    assert fates[5] == ("dlq", "the event is not a JSON object")


def test_what_cannot_be_computed_is_no_tombstone_but_a_dead_letter(spark, spellings):
    failing = "raise_error('no')"
    for wrong in ("key", "value", "version"):
        section = {"key": "user_id", "value": "ip", "version": "length(ip)"}
        section[wrong] = f"if(ip = 'bad', {failing}, {section[wrong]})"
        stage = writing_back(spellings, f"fails-{wrong}", **section)
        back, others = back_of(spark, spellings, stage, [{"user_id": "a", "ip": "bad"}, {"user_id": "b", "ip": "good"}])
        assert back == [(b"b", b"good", 4)]
        (topic, _, headers), (other, _, _) = others[0], others[1]
        assert (topic, other) == ("dlq", "out")
        assert headers["enrich.reason"] == b"an expression of the write-back cannot be computed"


@pytest.mark.parametrize("value", ["rand()", "concat(ip, uuid())", "current_timestamp()", "unix_timestamp()", "now()"])
def test_what_may_be_another_the_next_time_is_refused_where_the_same_records_are_promised(spark, spellings, value):
    section = {"topic": spellings.topic("all.back"), "value": value}
    replays = {
        replay: spellings.stage(f"chance-{replay}", [], topics="all", writeback=section, replay=replay)
        for replay in ("latest", "deterministic")
    }
    records(spark, spellings, replays["latest"], [])
    with pytest.raises(ConfigError) as raised:
        records(spark, spellings, replays["deterministic"], [])
    assert f"`{value}` may have another value" in raised.value.what


@pytest.mark.parametrize(
    ("section", "where"),
    [
        ({"value": "user_name"}, "writeback.value"),
        ({"key": ["user_id", "unhex(ip)"], "version": "ts"}, "writeback.key"),
        ({"key": "ts", "version": "ts"}, "writeback.key"),
        ({"version": "1.5"}, "writeback.version"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start_and_says_where(spark, spellings, section, where):
    section = {"value": "ip", **section}
    if section["value"] == "user_name":
        section["value"] = "concat(user_name)"  # a plain field is the configuration's to judge
    stage = writing_back(spellings, "refused", **section)
    with pytest.raises(ConfigError) as raised:
        records(spark, spellings, stage, [])
    assert str(raised.value.where).startswith(f"stages.refused.{where}")


def test_a_partition_that_came_meanwhile_ends_the_stage(spark, spellings, monkeypatch):
    stage = writing_back(spellings, "grown")
    monkeypatch.setattr("tests.support.stage.frames.VERSIONS", _versions_of_two())
    assert len(back_of(spark, spellings, stage, [{}, {}])[0]) == 2
    with pytest.raises(Exception) as raised:
        back_of(spark, spellings, stage, [{}, {}, {}])
    told = from_report(str(raised.value))
    assert isinstance(told, Retryable)
    assert told.where == "topic events"


def _versions_of_two():
    from enrich.stage.progress.source_versions import SourceVersions

    return SourceVersions("events", "an-id", 1, [0, 0])


class Redis:
    """The rows that a route made, by key."""

    def __init__(self, url, prefix):
        self._client = redis.Redis.from_url(url, decode_responses=True)
        self._prefix = prefix

    def rows(self):
        names = self._client.scan_iter(f"{self._prefix}:*", count=1000)
        return {name.removeprefix(f"{self._prefix}:"): self._client.hgetall(name) for name in names}

    def close(self):
        self._client.close()


@contextmanager
def synced(world, stack, topic, columns):
    """A route of the sync service from the topic to Redis, and what is there."""
    prefix = f"{world.document['name']}.{topic}"
    to = {"redis": {"url": stack.redis_url, "key": f"{prefix}:{{key}}"}}
    route = {"topic": topic, "format": "json", "columns": columns, "to": to, "retries": [], "reconcile": 0}
    world.document["sync"] = {"listen": "127.0.0.1:0", "writeback": {"out": route}}
    found = Redis(stack.redis_url, prefix)
    with syncing(world.pipeline) as service:
        yield service, found
    found.close()


def _has(found, ip):
    return found.rows().get("k", {}).get("ip") == ip


def run_until(spark, world, stage, topic, number, start=None):
    with running(spark, world, stage, start) as run:

        def all_there():
            assert run.error is None, run.error
            return sum(world.cluster.topics.end_offsets(topic).values()) >= number

        wait_until(all_there, what=f"{number} records written back")
        run.stop.set()
        assert run.end() is None


def send(world, stage, *events):
    topic = world.topic(f"{stage}.in")
    world.cluster.produce(topic, [(key.encode(), json.dumps(event).encode()) for key, event in events])


def read_so_far(service):
    return service.status().counters.get("records_read", 0)


def test_the_newest_event_of_a_key_stands_in_redis_and_a_replay_changes_nothing(spark, world, stack):
    back = world.topic("back", cleanup_policy="compact")
    section = {"topic": back, "value": "CASE WHEN ip IS NOT NULL THEN struct(ip) END"}
    stage = world.stage("enrich", [], writeback=section)
    send(world, stage, *((f"k{number % 5}", {"ip": str(number)}) for number in range(50)), ("k0", {}))
    with synced(world, stack, back, "ip string") as (service, found):
        run_until(spark, world, stage, back, 51)
        wait_until(lambda: read_so_far(service) == 51, what="all records in Redis")
        before = found.rows()
        assert {key: row.get("ip") for key, row in before.items()} == {
            "k0": None,
            **{f"k{number % 5}": str(number) for number in range(46, 50)},
        }
        assert before["k0"]["_deleted"] == "1"
        assert {int(row["_version"]) >> 40 for row in before.values()} == {1}
        world.lose_checkpoints()
        # In small batches, of which the first ones hold only what is older.
        world.document["stages"][stage]["settings"] = {"maxOffsetsPerTrigger": 10}
        run_until(spark, world, stage, back, 102, From.parse("earliest"))
        wait_until(lambda: read_so_far(service) == 102, what="the replay in Redis")
        assert found.rows() == before


def test_a_topic_that_was_recreated_counts_on_above_what_was_written(spark, world, stack):
    back = world.topic("back", cleanup_policy="compact")
    stage = world.stage("enrich", [], writeback={"topic": back, "value": "struct(ip)"})
    send(world, stage, *(("k", {"ip": str(number)}) for number in range(20)))
    with synced(world, stack, back, "ip string") as (_, found):
        run_until(spark, world, stage, back, 20)
        wait_until(lambda: found.rows().get("k", {}).get("ip") == "19", what="the newest in Redis")
        world.cluster.make_again(world.topic(f"{stage}.in"), partitions=2)
        world.lose_checkpoint(stage)
        send(world, stage, ("k", {"ip": "new"}))
        run_until(spark, world, stage, back, 21, From.parse("earliest"))
        wait_until(lambda: found.rows()["k"]["ip"] == "new", what="the event of the new topic in Redis")


def test_offsets_give_versions_above_those_that_a_field_gave_before(spark, world, stack):
    back = world.topic("back", cleanup_policy="compact")
    section = {"topic": back, "value": "struct(ip)", "version": "ts"}
    stage = world.stage("enrich", [], writeback=section)
    with synced(world, stack, back, "ip string") as (_, found):
        for number in range(3):
            send(world, stage, ("k", {"ip": str(number), "ts": "2026-01-01T00:00:00Z"}))
            run_until(spark, world, stage, back, number + 1)
            wait_until(partial(_has, found, str(number)), what="the event in Redis")
            section.pop("version", None)


def test_the_declared_version_decides_over_keys_from_several_partitions(spark, world, stack):
    back = world.topic("back", cleanup_policy="compact")
    section = {"topic": back, "key": "user_id", "value": "struct(ip)", "version": "ts"}
    stage = world.stage("enrich", [], writeback=section)
    times = [3, 9, 1, 7, 5, 2, 8]
    events = [{"user_id": "u", "ip": str(time), "ts": f"2026-01-01T00:00:0{time}Z"} for time in times]
    send(world, stage, *((f"k{number}", event) for number, event in enumerate([*events, {"ip": "of nobody"}])))
    with synced(world, stack, back, "ip string") as (service, found):
        run_until(spark, world, stage, back, len(times))
        wait_until(lambda: read_so_far(service) == len(times), what="all records in Redis")
        assert {key: row["ip"] for key, row in found.rows().items()} == {"u": "9"}
    assert world.records(stage) == len(times) + 1


def test_the_topic_is_checked_before_anything_starts(spark, world):
    stage = world.stage("enrich", [], writeback={"topic": "no.such.topic", "value": "ip"})
    error = Run(spark, world, stage).end()
    assert isinstance(error, ConfigError)
    assert "no.such.topic" in str(error)
