"""kill -9 at any moment: nothing is lost, nothing is produced twice, and what was deleted is deleted."""

import time
from random import Random

from tests.support.processes import kill
from tests.support.seed import random_source, rounds
from tests.support.sync.service import SHORT_SESSIONS
from tests.support.sync.sources import SourceWorld, repeats
from tests.support.waiting import wait_until


def test_a_source_that_is_killed_again_and_again_ends_with_the_table(source: SourceWorld) -> None:
    random = random_source("source kill")
    source.make_topic(partitions=4)
    source.make_table(rows=60_000)
    source.with_cursor()
    source.client = SHORT_SESSIONS
    source.settings |= {"delete_guard": 1}
    moments = [anywhere, within_a_transaction, after_a_commit, within_a_transaction, after_a_commit]
    for number in range(rounds(3, 30)):
        change(source, number)
        with source.process() as process:
            moments[number % len(moments)](source, random)
            kill(process.pid)
    with source.process():
        source.wait_equal(deadline_s=120)
    assert repeats(source.versions()) == []


def change(source: SourceWorld, number: int) -> None:
    """Most rows change, more than one transaction takes; some go, some come."""
    source.execute("UPDATE {} SET plan = %s, at = clock_timestamp() WHERE id %% 7 > 0", f"round {number}")
    source.execute("DELETE FROM {} WHERE id %% 997 = %s", number)
    source.insert(200_000 + 1_000 * number, 200_999 + 1_000 * number)


def anywhere(source: SourceWorld, random: Random) -> None:
    time.sleep(random.uniform(0, 4))  # not a wait: the moment itself is what is drawn


def within_a_transaction(source: SourceWorld, random: Random) -> None:
    """More than the markers with which what was left of the last one is aborted."""
    before = written(source)
    wait_until(lambda: written(source) > before + 100, what="a write")


def after_a_commit(source: SourceWorld, random: Random) -> None:
    """The first of several: what is known of the topic is not on the disk yet."""
    within_a_transaction(source, random)
    reached = written(source)
    wait_until(
        lambda: sum(source.cluster.topics.end_offsets(source.topic).values()) >= reached,
        deadline_s=180,
        what="a commit",
    )


def written(source: SourceWorld) -> int:
    """Committed or not."""
    return sum(source.cluster.topics.written_offsets(source.topic).values())
