"""What is known follows the topic: also where readers cannot see yet what was committed."""

import shutil
import threading

import numpy as np
import pyarrow as pa
import pytest

from enrich.base.errors import CorruptState
from enrich.kafka.writing.transactions import TransactionalProducer
from sync_service.sources.known.catching_up import catch_up, facts_of
from sync_service.sources.known.rows import KnownRows, digests_of
from sync_service.sources.writing import Writer
from tests.support.waiting import wait_until

NOW = 1_000_000


@pytest.fixture
def compacted(new_topic):
    return new_topic(cleanup_policy="compact", partitions=2)


@pytest.fixture
def known(cluster, compacted, tmp_path):
    known = KnownRows.make(tmp_path / "known", cluster.topics.topic_id(compacted))
    yield known
    known.close()


def follow(cluster, topic, known, now_ms=NOW):
    return catch_up(
        known, cluster.topics, facts_of(cluster.topics, topic, cluster.connection), cluster.connection, now_ms
    )


def test_the_last_value_of_each_key_is_known_and_nothing_is_read_twice(cluster, compacted, known):
    cluster.produce(compacted, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"c", b"")])
    assert follow(cluster, compacted, known) == 5
    found = known.lookup([b"a", b"b", b"c"])
    assert known.rows == 2
    assert (found.slots >= 0).tolist() == [True, False, True]
    assert found.digests[0] == digests_of([b"2"])[0]
    assert follow(cluster, compacted, known) == 0
    assert known.positions == cluster.topics.end_offsets(compacted)


def test_records_that_were_committed_and_cannot_be_read_yet_are_waited_for(cluster, compacted, known):
    """Somebody's open transaction holds back what readers see: that is no topic that was cut short."""
    other, ours = (TransactionalProducer(cluster.connection, f"{compacted}.{name}") for name in ("other", "ours"))
    other.start()
    ours.start()
    keys = [b"%d" % number for number in range(20)]
    done = threading.Event()
    with pytest.raises(KeyError), other.transaction():
        other.produce(compacted, [b"x%d" % number for number in range(20)], [b""] * 20)
        wait_until(lambda: sum(cluster.topics.written_offsets(compacted).values()) == 20)
        with ours.transaction() as spans:
            ours.produce(compacted, keys, [b"v"] * 20)
        slots, deleted = np.full(20, -1, np.int64), np.zeros(20, np.bool_)
        positions = {partition: span.last + 1 for partition, span in spans.items()}
        known.apply(keys, slots, digests_of([b"v"] * 20), deleted, positions)

        def catch_up_and_tell():
            follow(cluster, compacted, known)
            done.set()

        thread = threading.Thread(target=catch_up_and_tell)
        thread.start()
        assert not done.wait(0.5)
        raise KeyError  # the other transaction is aborted
    assert done.wait(20), "catching up raised or hangs"
    thread.join()
    assert known.rows == 20
    other.close()
    ours.close()


def test_what_was_committed_and_is_not_on_the_disk_yet_is_read_from_the_topic(cluster, compacted, known, tmp_path):
    """What a kill between a commit and a flush leaves: a directory that is behind the topic."""
    follow(cluster, compacted, known)
    known.flush()
    producer = TransactionalProducer(cluster.connection, f"{compacted}.writer")
    producer.start()
    keys = [b"%d" % number for number in range(100)]
    digests = pa.array([digest.tobytes() for digest in digests_of([b"v"] * 100)], pa.binary(16))
    columns = [pa.array(keys), pa.array([b"v"] * 100), digests, pa.array([-1] * 100)]
    differences = pa.RecordBatch.from_arrays(columns, names=["key", "value", "digest", "slot"])
    told: list[int] = []
    Writer(producer, compacted, known).write([differences], checkpoint=told.append)
    shutil.copytree(tmp_path / "known", tmp_path / "left")
    assert known.rows == 100
    left = KnownRows.open(tmp_path / "left")
    assert left.rows == 0
    assert follow(cluster, compacted, left) == 100
    assert (left.rows, left.positions) == (100, cluster.topics.end_offsets(compacted))
    assert follow(cluster, compacted, known) == 0, "it knows its own records, and the marker after them"
    assert known.positions == left.positions
    cluster.produce(compacted, [(b"another", b"1")])
    assert follow(cluster, compacted, known) == 1, "it stands where a marker would"
    left.close()
    producer.close()


def test_a_topic_that_ends_before_what_is_known_or_is_another_one_is_not_followed(cluster, new_topic, compacted, known):
    known.note(positions={0: 5, 1: 0})
    with pytest.raises(CorruptState, match=f"topic {compacted}, partition 0, offset 5"):
        follow(cluster, compacted, known)
    with pytest.raises(CorruptState, match="recreated"):
        follow(cluster, new_topic(cleanup_policy="compact"), known)


def test_a_topic_that_was_left_alone_for_half_its_tombstones_life_is_read_anew(cluster, new_topic, tmp_path):
    topic = new_topic(cleanup_policy="compact", delete_retention_ms="60000")
    known = KnownRows.make(tmp_path / "other", cluster.topics.topic_id(topic))
    follow(cluster, topic, known, NOW)
    follow(cluster, topic, known, NOW + 29_000)
    for now_ms in (NOW + 29_000 + 31_000, NOW):  # and after its clock was set back
        with pytest.raises(CorruptState, match="not followed for too long"):
            follow(cluster, topic, known, now_ms)
    known.close()
