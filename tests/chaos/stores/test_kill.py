"""kill -9 of the writer at any instant: what was acknowledged is there, and all of it fits together."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from stores.clock import SystemClock
from stores.rocks import RocksStore
from tests.chaos.stores.life import SIZES, SPECS, assert_whole, end_of, open_reader
from tests.support.processes import kill
from tests.support.seed import random_source, rounds
from tests.support.stores.directories import fast_directory
from tests.support.waiting import wait_until


class WriterProcess:
    """A writer like `life.py`, and the last thing that it acknowledged."""

    def __init__(self, directory: Path, program: str) -> None:
        self.acknowledged = (0, 0)
        self.published = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", program, str(directory)], stdout=subprocess.PIPE, text=True
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                counter, end = map(int, line.split())
                self.acknowledged = (counter, end)
                self.published += 1

    def kill(self) -> None:
        kill(self._process.pid)
        self._process.wait()
        self._listener.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def writing(directory: Path, program: str = "tests.chaos.stores.life") -> Iterator[WriterProcess]:
    writer = WriterProcess(directory, program)
    try:
        wait_until(lambda: writer.published, what="the first publication")
        yield writer
    finally:
        writer.kill()


def assert_no_log_was_used(directory: Path) -> None:
    """A secondary serves stale rows once a write went through the log, so none ever may."""
    assert [log.name for log in (directory / "db").glob("*.log") if log.stat().st_size] == []


def test_after_a_kill_at_any_instant_everything_acknowledged_is_there_and_whole():
    random = random_source("kill a writer")
    with fast_directory() as directory:
        store = directory / "store"
        for _ in range(rounds(5, 50)):
            with writing(store) as writer:
                time.sleep(random.uniform(0, 0.4))  # the instant of the kill is what is random
            assert_no_log_was_used(store)
            with closing(RocksStore(store, SPECS, SystemClock(), sizes=SIZES)) as reopened:
                assert reopened.seq.counter >= writer.acknowledged[0]
            with closing(open_reader(store)) as reader:
                reader.verify()
                snapshot = reader.snapshot()
                left, right = snapshot.table("left"), snapshot.table("right")
                assert_whole(left)
                assert_whole(right)
                assert end_of(left) == end_of(right) >= writer.acknowledged[1]


def test_readers_beside_a_writer_see_whole_publications_in_order_also_across_its_death():
    random = random_source("readers beside a writer")
    with fast_directory() as directory:
        store = directory / "store"
        with writing(store):
            pass
        seen = 0
        with closing(open_reader(store)) as reader:
            last = reader.snapshot().seq
            for _ in range(rounds(3, 30)):
                with writing(store) as writer:
                    end = time.monotonic() + 1
                    while time.monotonic() < end or writer.published < 50:
                        acknowledged = writer.acknowledged[1]
                        with closing(open_reader(store)) as another:
                            assert another.snapshot().seq >= last
                        for _ in range(random.randrange(20)):
                            snapshot = reader.snapshot()
                            left, right = snapshot.table("left"), snapshot.table("right")
                            assert snapshot.seq >= last
                            assert end_of(left) == end_of(right) >= acknowledged
                            assert_whole(left)
                            assert_whole(right)
                            seen += snapshot.seq > last
                            last = snapshot.seq
            reader.verify()
        assert seen >= 20
