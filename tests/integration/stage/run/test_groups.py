"""The consumer group of a stage is its own: another pipeline's stage of the same name is no concern of it."""

from contextlib import closing

import pytest
from confluent_kafka import TopicPartition

from enrich.base.errors import ConfigError, Retryable, WouldLoseData
from enrich.kafka import new_group_consumer
from enrich.stage.progress.group import StageProgress
from enrich.stage.progress.starting import From, starting_options


@pytest.fixture
def started(cluster, topic):
    """How a stage `enrich` of a pipeline would start on the topic, without a checkpoint."""

    def start(pipeline, chosen=None):
        with closing(StageProgress(cluster.connection, pipeline, "enrich")) as progress:
            parsed = None if chosen is None else From.parse(chosen)
            return starting_options("enrich", {topic: [0]}, has_progress=False, progress=progress, chosen=parsed)

    return start


def commit(cluster, pipeline, topic, offset):
    with closing(StageProgress(cluster.connection, pipeline, "enrich")) as progress:
        progress.take_over()
        progress.reached({topic: {0: offset}})
        progress.commit()


def test_the_first_start_of_a_stage_does_not_meet_the_offsets_of_another_pipeline(cluster, topic, started):
    commit(cluster, "one", topic, 20)
    assert started("two") == {"startingOffsets": "earliest"}
    with pytest.raises(ConfigError, match=r"enrich\.two\.enrich has no offsets"):
        started("two", "group")
    with pytest.raises(WouldLoseData, match=r"enrich\.one\.enrich"):
        started("one")
    commit(cluster, "two", topic, 10)
    assert started("one", "group") == {"startingOffsets": f'{{"{topic}": {{"0": 20}}}}'}


def test_what_a_drain_commits_last_is_tried_again(cluster, topic, started, monkeypatch):
    """A start with another checkpoint goes on there."""
    with closing(StageProgress(cluster.connection, "one", "enrich")) as progress:
        progress.take_over()
        send_offsets, failures = progress._producer.send_offsets, [Retryable("not now")] * 2

        def send_later(*arguments):
            if failures:
                raise failures.pop()
            send_offsets(*arguments)

        monkeypatch.setattr(progress._producer, "send_offsets", send_later)
        progress.reached({topic: {0: 20}})
        progress.commit()
    assert started("one", "group") == {"startingOffsets": f'{{"{topic}": {{"0": 20}}}}'}


def test_the_group_of_earlier_releases_is_told_of_and_taken_only_when_somebody_says_so(cluster, topic, started, caplog):
    with closing(new_group_consumer(cluster.connection, "enrich.enrich")) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    assert started("three") == {"startingOffsets": "earliest"}
    (told,) = [vars(record) for record in caplog.records if "earlier releases" in record.getMessage()]
    assert told["next"] == "--from group:enrich.enrich"
    with pytest.raises(ConfigError, match=r"enrich\.enrich"):
        started("three", "group")
    assert started("three", "group:enrich.enrich") == {"startingOffsets": f'{{"{topic}": {{"0": 7}}}}'}
