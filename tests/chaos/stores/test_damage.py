"""Damage on a copy of a store: the right answers, or an error that says to rebuild. Never a smaller or older table."""

import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from stores.clock import SystemClock
from stores.errors import ConfigError, CorruptState, Retryable
from stores.rocks import RocksStore
from tests.chaos.stores.life import SIZES, SPECS, assert_whole, batch, end_of, is_bad, open_reader
from tests.support.seed import random_source, rounds
from tests.support.stores.directories import fast_directory
from tests.support.waiting import wait_until

END = 2_000


@pytest.fixture(scope="module")
def whole():
    """A store with files of every kind: bulk-loaded, flushed, compacted, with history, and with a second manifest."""
    with fast_directory() as directory:
        path = directory / "whole"
        with closing(RocksStore(path, SPECS, SystemClock(), sizes=SIZES)) as store:
            bulk = store.bulk("left")
            bulk.add(batch(0, 1_000).versions)
            bulk.finish({0: 1_000})
            store.publish({"right": batch(0, 1_000)})
        with closing(RocksStore(path, SPECS, SystemClock(), sizes=SIZES)) as store:
            for start in range(1_000, END, 100):
                store.publish({name: batch(start, start + 100) for name in SPECS})
        yield path


def flipped(file: Path, at: float) -> None:
    content = bytearray(file.read_bytes())
    place = min(int(len(content) * at), len(content) - 1)
    content[place] ^= 0x10
    file.write_bytes(content)


def cut(file: Path, at: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * at)])


RANDOM = random_source("places of damage")
DAMAGES: dict[str, Callable[[Path], None]] = {
    **{
        f"flipped at {at:.0%}": partial(flipped, at=at)
        for at in (0, 0.1, 0.5, 0.9, 1, *(RANDOM.random() for _ in range(3)))
    },
    **{f"cut at {at:.0%}": partial(cut, at=at) for at in (0.25, 0.5, 0.75, 0.98, RANDOM.random())},
    "emptied": partial(cut, at=0),
    "deleted": Path.unlink,
}


def files_of(path: Path) -> list[Path]:
    return sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file())


def answers_of_a_reader(path: Path) -> str:
    """What became of reading all: whole, or the name of the error. Any other answer fails the test."""
    try:
        with closing(open_reader(path)) as reader:
            snapshot = reader.snapshot()
            for name in SPECS:
                assert end_of(snapshot.table(name)) == END
                assert_whole(snapshot.table(name))
                marks = [version.offset for version in snapshot.table(name).versions(b"mark")]
                assert marks == [offset for offset in range(0, END, 3) if not is_bad(offset)]
            reader.verify()
    except (CorruptState, ConfigError, Retryable) as error:
        return type(error).__name__
    return "whole"


def answers_of_a_writer(path: Path) -> str:
    try:
        with closing(RocksStore(path, SPECS, SystemClock(), sizes=SIZES)) as store:
            store.publish({name: batch(END, END) for name in SPECS})
            return answers_of_a_reader(path)
    except (CorruptState, ConfigError) as error:
        return type(error).__name__


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_every_damaged_file_gives_right_answers_or_a_clear_error(whole, damage):
    fates = {}
    for name in files_of(whole):
        if name.parts[-1] in ("LOCK", "rocksdict-config.json") or name.parts[-1].startswith("LOG"):
            continue  # see the next test: nobody reads them
        with fast_directory() as directory:
            copy = directory / "copy"
            shutil.copytree(whole, copy)
            if not (copy / name).stat().st_size:
                continue
            damage(copy / name)
            reader_first = answers_of_a_reader(copy)
            fates[str(name)] = (reader_first, answers_of_a_writer(copy))
    assert fates["watermark"][1] == "CorruptState"
    assert all(
        fate in ("whole", "CorruptState", "ConfigError", "Retryable") for pair in fates.values() for fate in pair
    )


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_files_that_nobody_reads_do_not_matter(whole, damage):
    for name in files_of(whole):
        if name.parts[-1] in ("LOCK", "rocksdict-config.json") or name.parts[-1].startswith("LOG"):
            with fast_directory() as directory:
                copy = directory / "copy"
                shutil.copytree(whole, copy)
                if (copy / name).stat().st_size:
                    damage(copy / name)
                assert answers_of_a_reader(copy) == "whole"
                assert answers_of_a_writer(copy) == "whole"


MADE_AND_DELETED_FOR_EVER = """
import shutil, sys
while True:
    shutil.copytree(*sys.argv[1:], dirs_exist_ok=True)  # a reader makes directories too
    shutil.rmtree(sys.argv[2], ignore_errors=True)
"""


def test_a_reader_of_a_store_that_is_deleted_and_recreated_is_told_so_whenever_it_comes(whole):
    with fast_directory() as directory:
        copy = directory / "copy"
        with subprocess.Popen([sys.executable, "-c", MADE_AND_DELETED_FOR_EVER, whole, copy]) as others:
            try:
                wait_until(lambda: answers_of_a_reader(copy) == "whole", what="the first store")
                fates = {answers_of_a_reader(copy) for _ in range(rounds(1_000, 100_000))}

                def are_met() -> bool:
                    fates.add(answers_of_a_reader(copy))
                    return fates >= {"CorruptState", "Retryable"}

                wait_until(are_met, what="both fates")
            finally:
                others.kill()


def test_a_store_that_silently_became_an_older_one_is_refused(whole):
    with fast_directory() as directory:
        copy = directory / "copy"
        shutil.copytree(whole, copy)
        with closing(RocksStore(copy, SPECS, SystemClock(), sizes=SIZES)) as store:
            store.publish({name: batch(END, END + 1) for name in SPECS})
        shutil.rmtree(copy / "db")
        shutil.copytree(whole / "db", copy / "db")
        with pytest.raises(CorruptState, match="was acknowledged"):
            RocksStore(copy, SPECS, SystemClock(), sizes=SIZES)
        with pytest.raises(CorruptState, match="was acknowledged"):
            open_reader(copy)


class _Bomb:
    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def __reduce__(self):
        return Path.touch, (self._trace,)


def test_a_hostile_directory_executes_nothing(whole, tmp_path):
    bomb = pickle.dumps(_Bomb(tmp_path / "executed"))
    with fast_directory() as directory:
        copy = directory / "copy"
        shutil.copytree(whole, copy)
        (copy / "db" / "rocksdict-config.json").write_text(json.dumps({"raw_mode": False, "prefix_extractors": {}}))
        for name in ("evil.pkl", "db/evil.pkl", "bulk"):
            (copy / name).write_bytes(bomb)
        assert answers_of_a_reader(copy) == "whole"
        assert answers_of_a_writer(copy) == "whole"
        for file in files_of(copy):
            (copy / file).write_bytes(bomb)
        assert answers_of_a_reader(copy) == answers_of_a_writer(copy) == "CorruptState"
    assert not (tmp_path / "executed").exists()
    pickle.loads(bomb)  # noqa: S301 - the bomb works
    assert (tmp_path / "executed").exists()
