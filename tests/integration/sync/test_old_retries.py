"""Whatever becomes of the configuration or the topic, what waits for another try ends in the store or in the DLQ."""

from contextlib import closing

from confluent_kafka import TopicPartition

from enrich.kafka import DeliveringProducer, kafka_errors, new_group_consumer
from enrich.service.routes import RouteState
from sync_service.reconcile import Reconciliation
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients
from tests.support.sync.service import Running, SyncWorld, running
from tests.support.waiting import wait_until, when_reachable


def names(service: Running) -> list[str]:
    return [status.name for status in service.service.statuses()]


def test_what_waits_in_an_old_retry_topic_is_tried_and_goes_through_the_new_ones(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    for key in ("taken", "free"):
        world.redis.rpush(f"{world.name}:{key}", "by another program")
    world.produce(("taken", {"plan": "x", "rps": 1}), ("free", {"plan": "x", "rps": 2}), ("a", {"plan": "x", "rps": 3}))
    # Of a release whose groups had the numbers of their places: one record was tried, the other was not.
    oldest, group = f"{world.name}.out.retry.2h", f"enrich.sync.{world.name}.out.retry-1"
    world.cluster.topics.create(oldest)
    with DeliveringProducer(world.cluster.connection) as producer:
        for name in (b"done", b"older"):
            producer.produce(oldest, name, b'{"plan": "y", "rps": 3}', headers={"enrich.version": b"5"})
    tried = TopicPartition(oldest, 0, 1)

    def commit() -> None:
        with kafka_errors(), closing(new_group_consumer(world.cluster.connection, group)) as consumer:
            consumer.commit(offsets=[tried], asynchronous=False)

    when_reachable(commit)  # the group is new: its coordinator may not be there yet
    with running(world.pipeline(world.to_redis(), retries=["1h"])) as service:
        wait_until(lambda: service.status().counters.get("rows_retried_later") == 2)
        wait_until(lambda: service.status().lag == 0)
    world.redis.delete(f"{world.name}:free")
    with running(world.pipeline(world.to_redis(), retries=["200ms"])) as service:
        wait_until(lambda: world.redis.hget(f"{world.name}:free", "rps") == "2", what="the row of the old topic")
        wait_until(lambda: world.redis.hget(f"{world.name}:older", "rps") == "3", what="the row of the oldest")
        letters = wait_until(lambda: world.dead_letters(), what="the dead letter")
        wait_until(lambda: service.status("out.retry-1").counters["records_read"] == 1, what="the new retry")
        wait_until(lambda: "out.retry-old" not in names(service), what="nothing is left to be done")
        assert not world.redis.exists(f"{world.name}:done")
    assert letters.keys() == {f"{world.topic}/0/0"}


def test_what_waits_while_the_topic_is_recreated_is_no_row_of_the_new_one(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    world.redis.rpush(f"{world.name}:taken", "by another program")
    world.produce(("taken", {"plan": "x", "rps": 1}), ("a", {"plan": "x", "rps": 1}))
    with running(world.pipeline(world.to_redis(), retries=["1h"])) as service:
        wait_until(lambda: service.status().counters.get("rows_retried_later") == 1)
        wait_until(lambda: service.status().lag == 0)
    world.redis.delete(f"{world.name}:taken")
    world.cluster.make_again(world.topic)
    world.produce(("a", {"plan": "new", "rps": 2}))
    pipeline = world.pipeline(world.to_redis(), retries=["200ms"])
    with running(pipeline) as service:
        wait_until(lambda: "out.retry-old" in names(service))
        for route in ("out", "out.retry-1", "out.retry-old"):
            wait_until(lambda route=route: service.status(route).state is RouteState.held, what=f"{route} is held")  # type: ignore[misc] # a lambda's default
        assert world.rows_in_redis().keys() == {"a"}
        Reconciliation(plans_of(pipeline)[0], Clients(pipeline)).run(repair=True, yes=True)
        letters = wait_until(lambda: world.dead_letters(), what="the dead letter")
        wait_until(lambda: service.status().state is RouteState.running)
    assert [letter["enrich.key"] for letter in letters.values()] == ["taken"]
    assert "recreated" in letters[f"{world.topic}/0/0"]["enrich.reason"]
    assert {key: row[1] for key, row in world.rows_in_redis().items()} == {"a": "new"}
