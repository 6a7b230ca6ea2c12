"""Records that the store does not take go their own way, alone: their neighbours are written, and none is lost."""

import json

from enrich.config import load_text
from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until


def test_a_record_that_cannot_be_decoded_is_buried_with_its_reason_and_its_place(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    rows = [(f"k{n}".encode(), json.dumps({"plan": "p", "rps": n}).encode()) for n in range(500)]
    rows[250] = (b"poison", b'{"plan": "secret-payload", "rps": "many"}')
    world.cluster.produce(world.topic, rows)
    with running(world.pipeline(world.to_redis())):
        wait_until(lambda: len(world.in_redis()) == 499, what="all good rows")
        letters = wait_until(lambda: world.dead_letters(), what="a dead letter")
    place = f"{world.topic}/0/250"
    assert letters.keys() == {place}
    letter = letters[place]
    assert letter["value"] == '{"plan": "secret-payload", "rps": "many"}'
    assert (letter["enrich.topic"], letter["enrich.partition"], letter["enrich.offset"]) == (world.topic, "0", "250")
    assert (letter["enrich.key"], letter["enrich.stage"]) == ("poison", "out")
    assert "rps" in letter["enrich.reason"] and "many" not in letter["enrich.reason"]
    assert letter["enrich.version"] == str(2**40 + 250)


def test_letters_of_two_routes_do_not_hide_each_other(world: SyncWorld) -> None:
    """Of one topic, into one DLQ, which may be compacted."""
    world.make_topic(partitions=1)
    world.make_table()
    world.cluster.produce(world.topic, [(b"poison", b"no json"), (b"a", b'{"plan": "p", "rps": 1}')])
    data = world.data_to_both()
    for route in data["sync"]["writeback"].values():
        route["dlq"] = f"{world.name}.out.dlq"
    with running(load_text(json.dumps(data), {})):
        wait_until(lambda: len(world.in_redis()) == len(world.in_postgres()) == 1, what="the good row in both")
        wait_until(lambda: world.dead_letters(), what="the letters")
        keys = wait_until(
            lambda: len(found := {m.key() for m in world.cluster.messages(f"{world.name}.out.dlq")}) == 2 and found,
            what="a letter of each route",
        )
    topic_id = world.cluster.topics.topic_id(world.topic)
    wanted = {f"{world.topic}/0/0/{world.name}.sync.{route}/{topic_id}".encode() for route in ("out", "table")}
    assert keys == wanted


def test_a_row_that_the_table_refuses_is_found_among_good_ones(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    world.make_table("plan text CHECK (plan <> 'bad'), rps smallint")
    rows = [(f"k{n}", {"plan": "p", "rps": n}) for n in range(300)]
    rows[7], rows[255] = ("bad", {"plan": "bad", "rps": 1}), ("large", {"plan": "p", "rps": 70_000})
    world.produce(*rows)
    with running(world.pipeline(world.to_postgres())):
        wait_until(lambda: len(world.in_postgres()) == 298, what="all good rows")
        letters = wait_until(lambda: world.dead_letters(2), what="two dead letters")
    assert {letter["enrich.key"] for letter in letters.values()} == {"bad", "large"}


def test_a_null_key_is_buried(world: SyncWorld) -> None:
    world.cluster.topics.create(world.topic)
    world.cluster.produce(world.topic, [(None, b'{"plan": "x"}'), (b"a", b'{"plan": "x"}')])
    with running(world.pipeline(world.to_redis())):
        wait_until(lambda: world.in_redis().keys() == {"a"} and world.dead_letters())
    (letter,) = world.dead_letters().values()
    assert letter["enrich.reason"] == "its key is null" and "enrich.key" not in letter


def test_a_row_whose_parent_comes_later_is_written_from_a_retry_topic(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    world.postgres.execute(f"CREATE TABLE {world.name}_plans (plan text PRIMARY KEY)")
    world.make_table(f"plan text REFERENCES {world.name}_plans, rps int")
    insert = f"INSERT INTO {world.name}_plans VALUES (%s)"  # noqa: S608 - our own name
    world.postgres.execute(insert, ["known"])
    world.produce(("early", {"plan": "later", "rps": 1}), ("good", {"plan": "known", "rps": 2}))
    with running(world.pipeline(world.to_postgres(), retries=["500ms", "5s"])) as service:
        wait_until(lambda: world.in_postgres().keys() == {"good"}, what="the neighbour")
        wait_until(lambda: service.status().counters.get("rows_retried_later") == 1)
        world.postgres.execute(insert, ["later"])
        # A tier that found its topic unknown at first waits up to half a minute before it looks again.
        wait_until(lambda: len(world.in_postgres()) == 2, what="the row that came early")
    assert world.in_postgres()["early"][2] == 2**40
    assert world.dead_letters() == {}


def test_a_row_that_stays_refused_is_buried_after_the_last_retry_with_its_first_place(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    world.redis.rpush(f"{world.name}:taken", "by another program")
    world.produce(("taken", {"plan": "x", "rps": 1}), ("a", {"plan": "x", "rps": 2}))
    with running(world.pipeline(world.to_redis(), retries=["100ms", "200ms"])):
        letters = wait_until(lambda: world.dead_letters(), what="the dead letter")
        keys = world.redis.keys(f"{world.name}:*")
    assert letters.keys() == {f"{world.topic}/0/0"}
    assert "WRONGTYPE" in letters[f"{world.topic}/0/0"]["enrich.reason"]
    assert sorted(keys) == [f"{world.name}:a", f"{world.name}:taken"]


def test_a_late_retry_does_not_overwrite_what_came_meanwhile(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    world.redis.rpush(f"{world.name}:taken", "by another program")
    world.produce(("taken", {"plan": "old", "rps": 1}))
    with running(world.pipeline(world.to_redis(), retries=["1s"])) as service:
        wait_until(lambda: service.status().counters.get("rows_retried_later") == 1)
        world.redis.delete(f"{world.name}:taken")
        world.produce(("taken", {"plan": "new", "rps": 2}))
        wait_until(lambda: world.redis.exists(f"{world.name}:taken"))
        wait_until(lambda: service.status("out.retry-1").counters["records_read"] == 1, what="the retry")
    assert world.redis.hget(f"{world.name}:taken", "plan") == "new"


def test_the_version_before_one_that_is_refused_is_written(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    world.make_table("plan varchar(5) CHECK (plan <> 'bad'), rps smallint")
    world.produce(
        ("a", {"plan": "first", "rps": 0}),
        ("a", {"plan": "good", "rps": 1}),
        ("a", {"plan": "bad", "rps": 2}),
        ("a", {"plan": "too long", "rps": 3}),
        ("b", {"plan": "good", "rps": 4}),
    )
    with running(world.pipeline(world.to_postgres())):
        letters = wait_until(lambda: world.dead_letters(2), what="two dead letters")
        wait_until(lambda: len(world.in_postgres()) == 2)
    assert world.in_postgres()["a"] == ("good", 1, 2**40 + 1)
    assert {letter["enrich.offset"] for letter in letters.values()} == {"2", "3"}


def test_a_hash_whose_version_is_no_number_keeps_only_its_own_record_back(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    for number, version in enumerate(("v1.2", "nan", "", "0x10")):
        world.redis.hset(f"{world.name}:taken{number}", mapping={"_version": version, "plan": "theirs"})
    world.produce(*((f"{kind}{n}", {"plan": "x", "rps": n}) for n in range(4) for kind in ("taken", "free")))
    with running(world.pipeline(world.to_redis())):
        letters = wait_until(lambda: world.dead_letters(4), what="the dead letters")
        wait_until(lambda: all(world.redis.exists(f"{world.name}:free{n}") for n in range(4)), what="the neighbours")
    assert {letter["enrich.key"] for letter in letters.values()} == {f"taken{n}" for n in range(4)}
    assert all("_version" in letter["enrich.reason"] for letter in letters.values())
    assert world.redis.hget(f"{world.name}:taken0", "plan") == "theirs"


def test_equal_pauses_are_one_try_after_the_other(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    world.redis.rpush(f"{world.name}:taken", "by another program")
    world.produce(("taken", {"plan": "x", "rps": 1}))
    with running(world.pipeline(world.to_redis(), retries=["100ms", "100ms", "100ms"])) as service:
        wait_until(lambda: world.dead_letters(), what="the dead letter")
        read = [service.status(f"out.retry-{n}").counters["records_read"] for n in (1, 2, 3)]
    assert read == [1, 1, 1]
    first = f"{world.name}.out.retry.100ms"
    assert [sum(world.cluster.topics.end_offsets(name).values()) for name in (first, f"{first}.2", f"{first}.3")] == [
        1,
        1,
        1,
    ]
