"""kill -9 of the writer while it publishes, merges or builds: readers keep a whole publication, the next goes on."""

import time
from contextlib import closing

from tests.chaos.segments.life import assert_right, end_of, open_reader, open_writer
from tests.chaos.stores.test_kill import writing
from tests.support.seed import random_source, rounds
from tests.support.stores.directories import fast_directory

PROGRAM = "tests.chaos.segments.life"


def assert_whole_publication(reader):
    snapshot = reader.snapshot()
    left, right = snapshot.table("left"), snapshot.table("right")
    assert end_of(left) == end_of(right)
    assert_right(left)
    assert_right(right)
    return snapshot


def test_after_a_kill_at_any_instant_readers_old_and_new_have_the_last_publication():
    random = random_source("kill a segments writer")
    with fast_directory() as directory:
        with writing(directory, PROGRAM):
            pass
        with closing(open_reader(directory)) as old:
            for _ in range(rounds(5, 50)):
                with writing(directory, PROGRAM) as writer:
                    time.sleep(random.uniform(0, 0.3))  # the instant of the kill is what is random
                for reader in (old, open_reader(directory)):
                    snapshot = assert_whole_publication(reader)
                    assert snapshot.seq.counter >= writer.acknowledged[0]
                    assert end_of(snapshot.table("left")) >= writer.acknowledged[1]


def test_a_writer_after_a_kill_reuses_what_is_there_and_leaves_no_other_file():
    with fast_directory() as directory:
        with writing(directory, PROGRAM):
            pass
        before = open_reader(directory).snapshot()
        writer, end = open_writer(directory)
        assert end == end_of(before.table("left"))
        named = {one.name for table in writer._manifest.tables.values() for one in table.segments}
        assert {path.name for path in directory.iterdir()} == {*named, "manifest"}


def test_readers_beside_a_writer_see_whole_publications_in_order_also_across_its_death():
    random = random_source("readers beside a segments writer")
    seen = 0
    with fast_directory() as directory:
        with writing(directory, PROGRAM):
            pass
        with closing(open_reader(directory)) as reader:
            last = reader.snapshot().seq
            for _ in range(rounds(3, 30)):
                with writing(directory, PROGRAM) as writer:
                    end = time.monotonic() + 1
                    while time.monotonic() < end or writer.published < 50:
                        acknowledged = writer.acknowledged[1]
                        for _ in range(random.randrange(20)):
                            snapshot = assert_whole_publication(reader)
                            assert snapshot.seq >= last
                            assert end_of(snapshot.table("left")) >= acknowledged
                            seen += snapshot.seq > last
                            last = snapshot.seq
    assert seen >= 20
