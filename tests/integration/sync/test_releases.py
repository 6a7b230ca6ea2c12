"""Releases decide between equal versions: in every store, on every way of a record, and in a reconciliation."""

import json
from typing import Any

import pytest

from enrich.base.errors import ConfigError
from enrich.config import Pipeline, load_text
from enrich.kafka import DeliveringProducer
from sync_service.reconcile import Reconciliation, Report
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients
from tests.support.sync.service import Running, SyncWorld, running
from tests.support.waiting import wait_until

Row = dict[str, Any] | None


def produce(world: SyncWorld, *records: tuple[str, int | None, str | None, Row]) -> None:
    """Key, version, the text of the release, and columns or None for a tombstone."""
    with DeliveringProducer(world.cluster.connection) as producer:
        for key, version, release, row in records:
            headers = {} if version is None else {"enrich.version": str(version).encode()}
            headers |= {} if release is None else {"enrich.release": release.encode()}
            value = None if row is None else json.dumps(row).encode()
            producer.produce(world.topic, key.encode(), value, headers=headers)


def plan(text: str) -> Row:
    return {"plan": text, "rps": 1}


@pytest.fixture(params=["redis_hash", "redis_json", "postgres", "postgres_hard"])
def to(request: pytest.FixtureRequest, world: SyncWorld) -> dict[str, Any]:
    if request.param.startswith("postgres"):
        world.make_table(soft=request.param == "postgres", released=True)
        hard = {"delete": "hard"} if request.param == "postgres_hard" else {}
        return world.to_postgres(release_column="release", **hard)
    return world.to_redis(**{"as": request.param.removeprefix("redis_")})


def pipeline_of(world: SyncWorld, to: dict[str, Any], release: int = 0, **more: Any) -> Pipeline:
    return load_text(json.dumps({**world.data(to, **more), "release": release}), {})


def all_written(world: SyncWorld, service: Running) -> None:
    count = sum(world.cluster.topics.end_offsets(world.topic).values())
    wait_until(lambda: sum(world.committed().values()) == count, what="all records committed")
    assert service.error is None


def reconcile(world: SyncWorld, to: dict[str, Any], **options: Any) -> Report:
    pipeline = world.pipeline(to)
    return Reconciliation(plans_of(pipeline)[0], Clients(pipeline)).run(**{"repair": False, **options})


def test_of_equal_versions_the_higher_release_wins_in_one_batch_and_in_the_next(
    world: SyncWorld, to: dict[str, Any]
) -> None:
    world.make_topic(partitions=1)
    with running(world.pipeline(to)) as service:
        produce(world, ("a", 5, None, plan("bad")), ("b", 5, "7", plan("bad")), ("c", 5, "7", plan("gone")))
        produce(world, ("d", 5, "9", plan("good")), ("d", 5, "8", plan("late")), ("e", 6, "1", plan("newest")))
        all_written(world, service)
        produce(world, ("a", 5, "8", plan("good")), ("b", 5, "8", plan("good")), ("c", 5, "8", None))
        produce(world, ("b", 5, "8", plan("again")), ("c", 5, "7", plan("late")), ("e", 5, "9", plan("older")))
        all_written(world, service)
    plans = {key: (version, text) for key, (version, text, _) in world.everything().items()}
    assert plans == {"a": (5, "good"), "b": (5, "good"), "d": (5, "good"), "e": (6, "newest")}
    assert reconcile(world, to).agrees


def test_a_row_of_a_lower_release_is_named_older_and_repaired(world: SyncWorld, to: dict[str, Any]) -> None:
    """As when records of the higher release are behind a route that did not know releases yet."""
    world.make_topic(partitions=1)
    produce(world, *((f"k{n}", 5, "7", plan("bad")) for n in range(20)), ("gone", 5, "7", plan("bad")))
    with running(world.pipeline(to)) as service:
        all_written(world, service)
    produce(world, *((f"k{n}", 5, "8", plan("good")) for n in range(10)), ("gone", 5, "8", None))
    produce(world, ("k15", 5, "6", plan("late")))
    found = reconcile(world, to)
    assert {(each.key, each.kind) for each in found.differences} == {
        *((b"k%d" % n, "older") for n in range(10)),
        (b"gone", "extra"),
    }
    one = next(each for each in found.differences if each.key == b"k3")
    assert (one.topic_version, one.store_version, one.topic_release, one.store_release) == (5, 5, 8, 7)
    assert reconcile(world, to, repair=True, yes=True).agrees
    assert reconcile(world, to).differences == []
    plans = {key: text for key, (_, text, _) in world.everything().items()}
    assert plans == {f"k{n}": "good" if n < 10 else "bad" for n in range(20)}


def test_a_row_of_a_higher_release_than_any_record_is_left_as_it_is(world: SyncWorld, to: dict[str, Any]) -> None:
    world.make_topic(partitions=1)
    produce(world, ("a", 5, "8", plan("good")), ("b", 5, "8", plan("good")))
    with running(world.pipeline(to)) as service:
        all_written(world, service)
        produce(world, ("a", 5, "7", plan("late")), ("b", 5, "8", plan("same")))
        all_written(world, service)
    world.cluster.topics.delete(world.topic)
    wait_until(lambda: not world.cluster.topics.exists(world.topic))
    world.make_topic(partitions=1)
    produce(world, ("a", 5, "7", plan("late")), ("b", 5, "8", plan("good")))  # what compaction would keep
    generation = reconcile(world, to)
    assert generation.raised == "was recreated"
    assert [(each.key, each.kind) for each in generation.differences] == [(b"a", "altered")]
    assert reconcile(world, to, repair=True).agrees  # a person has said that the topic is right
    assert world.everything()["a"][1] == "late"


def test_releases_say_nothing_of_rows_whose_versions_are_offsets(world: SyncWorld, to: dict[str, Any]) -> None:
    world.make_topic(partitions=1)
    produce(world, *((f"k{n}", None, None if n % 2 else "7", plan(f"p{n}")) for n in range(20)))
    produce(world, ("k0", None, "3", plan("last")), ("k1", None, None, None), ("k2", None, "1", None))
    with running(world.pipeline(to)) as service:
        all_written(world, service)
    assert world.everything()["k0"][1] == "last"
    assert reconcile(world, to).agrees
    if world.has_table:  # as a service that did not know releases has left them
        world.postgres.execute(f"UPDATE {world.name} SET release = NULL")  # noqa: S608 - our own name
        assert reconcile(world, to).agrees
        alter = f"UPDATE {world.name} SET plan = 'altered', release = 9 WHERE id = 'k3'"  # noqa: S608 - our own name
        world.postgres.execute(alter)
        assert [(each.key, each.kind) for each in reconcile(world, to).differences] == [(b"k3", "altered")]
        assert reconcile(world, to, repair=True).agrees
        assert reconcile(world, to).differences == []


@pytest.mark.parametrize("wrong", ["v7", "-1", "", "9" * 18])
def test_what_is_no_release_is_one_dead_letter(world: SyncWorld, wrong: str) -> None:
    world.make_topic(partitions=1)
    produce(world, ("a", 5, wrong, plan("x")), ("b", 5, "7", plan("x")))
    with running(world.pipeline(world.to_redis())):
        (letter,) = wait_until(lambda: list(world.dead_letters().values()))
        wait_until(lambda: "b" in world.in_redis())
    assert letter["enrich.reason"] == f"the header enrich.release is not a whole number between 0 and {2**53}"
    assert letter["enrich.release"] == wrong
    assert world.in_redis().keys() == {"b"}


def test_of_several_headers_the_greatest_counts(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    with DeliveringProducer(world.cluster.connection) as producer:
        headers = [("enrich.version", b"5"), *(("enrich.release", release) for release in (b"3", b"9", b"7"))]
        producer.produce(world.topic, b"a", b'{"plan": "x"}', headers=headers)
    with running(world.pipeline(world.to_redis())):
        wait_until(lambda: world.in_redis().get("a", {}).get("_release") == "9")


def test_a_refused_record_keeps_its_release_on_its_way(world: SyncWorld) -> None:
    """Through the retry topic, and into the DLQ: replayed from there it is still the record of its release."""
    world.make_topic(partitions=1)
    world.redis.set(f"{world.name}:a", "of another program")
    world.redis.set(f"{world.name}:b", "of another program")
    with running(world.pipeline(world.to_redis(), retries=["300ms"])):
        produce(world, ("a", 5, "7", plan("good")), ("b", 5, "7", plan("waits")), ("a", 5, "6", plan("bad")))
        letters = wait_until(lambda: world.dead_letters(3), what="what was refused twice")
        assert sorted(each["enrich.release"] for each in letters.values()) == ["6", "7", "7"]
        world.redis.delete(f"{world.name}:a", f"{world.name}:b")
        produce(world, ("b", 5, "8", plan("newer")))
        wait_until(lambda: "b" in world.in_redis())
        for letter in letters.values():  # as `enrich dlq replay` sends them back
            key, row = letter["enrich.key"], json.loads(letter["value"])
            produce(world, (key, int(letter["enrich.version"]), letter["enrich.release"], row))
        produce(world, ("end", 1, None, plan("x")))
        wait_until(lambda: "end" in world.in_redis())
    assert world.in_redis()["a"] == {"plan": "good", "rps": "1", "_version": "5", "_release": "7"}
    assert world.in_redis()["b"]["plan"] == "newer"


@pytest.mark.parametrize("delete", ["soft", "hard"])
def test_a_table_needs_the_column_once_the_pipeline_has_a_release(world: SyncWorld, delete: str) -> None:
    world.make_topic(partitions=1)
    world.make_table(soft=delete == "soft")
    to = world.to_postgres(delete=delete)
    produce(world, ("a", 5, "7", plan("first")))
    with running(pipeline_of(world, to)) as service:
        wait_until(lambda: "a" in world.in_postgres(), what="the row, without a column for releases")
        produce(world, ("a", 5, "8", plan("second")))
        all_written(world, service)
        (warning,) = [each for each in service.status().details["warnings"] if "enrich.release" in each]
        assert "does not compare" in warning and "release_column" in warning
    assert world.in_postgres()["a"][0] == "first"
    assert reconcile(world, to).agrees  # it compares what the route writes
    with running(pipeline_of(world, to, release=9)) as service:
        error = service.wait_ended()
    assert isinstance(error, ConfigError)
    statement = f"ALTER TABLE {world.name} ADD COLUMN release bigint"
    assert "no column release" in error.what and statement in (error.next_step or "")
    world.postgres.execute(statement)
    with running(pipeline_of(world, to, release=9)) as service:
        produce(world, ("a", 5, "9", plan("third")))
        wait_until(lambda: world.in_postgres()["a"][0] == "third", what="the row of the higher release")
