"""Damage to the files of segments: the right answers or an error, never wrong ones and never the reader's end."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from stores.clock import SystemClock
from stores.errors import CorruptState, Retryable
from stores.segments import SegmentsWriter
from stores.segments.manifest import parse_manifest, read_raw_manifest
from stores.table import Seq
from tests.chaos.segments.life import SPECS, assert_right, build, change, known, open_reader, open_writer
from tests.support.seed import random_source
from tests.support.stores.directories import fast_directory
from tests.support.waiting import wait_until

END = 2_000
RANDOM = random_source("places of damage in segments")


def flip(file: Path, at: float) -> None:
    content, before = file.read_bytes(), file.stat().st_ctime_ns
    place = min(int(len(content) * at), len(content) - 1)
    flipped = bytes([content[place] ^ 0x10])

    def write() -> bool:
        with file.open("r+b") as raw:
            raw.seek(place)
            raw.write(flipped)
        return file.stat().st_ctime_ns != before

    # The clock of the file system may stand still for some milliseconds.
    wait_until(write, what="a new change time")


def cut(file: Path, at: float) -> None:
    with file.open("r+b") as raw:
        raw.truncate(int(file.stat().st_size * at))


DAMAGES: dict[str, Callable[[Path], None]] = {
    **{f"flipped at {at:.0%}": partial(flip, at=at) for at in (0.01, 0.5, 0.95, 1, RANDOM.random(), RANDOM.random())},
    **{f"cut at {at:.0%}": partial(cut, at=at) for at in (0, 0.25, 0.99, RANDOM.random())},
    "deleted": Path.unlink,
}


def fill(directory: Path):
    writer, end = open_writer(directory)
    for start in range(end, END, 100):
        seq = writer.seq._replace(counter=writer.seq.counter + 1)
        writer.publish(seq, {name: change(start, start + 100) for name in SPECS})
        writer.merge()
    return writer


def is_right_or_refused(reader) -> bool:
    try:
        snapshot = reader.snapshot()
        views = [snapshot.table(name) for name in SPECS]
    except (CorruptState, Retryable):
        return False
    for view in views:
        assert_right(view)
    return True


def read_anew(directory: Path) -> bool:
    try:
        return is_right_or_refused(open_reader(directory))
    except (CorruptState, Retryable):
        return False


def segments_of(directory: Path, name: str) -> list[Path]:
    manifest = parse_manifest(directory, read_raw_manifest(directory))
    return [directory / one.name for one in manifest.tables[name].segments]


def damage_a_copy(directory: Path, file: Path, damage: Callable[[Path], None]) -> None:
    """A copy has other change times, so nothing of it is believed unread."""
    with fast_directory() as other:
        copy = other / "copy"
        shutil.copytree(directory, copy)
        assert read_anew(copy)
        damage(copy / file.name)
        assert not read_anew(copy)


@pytest.mark.parametrize("damage", list(DAMAGES.values()), ids=list(DAMAGES))
def test_damage_is_noticed_by_readers_and_by_the_writer_which_builds_the_table_anew(damage):
    with fast_directory() as directory:
        writer = fill(directory)
        for place in (0, -1):
            old = open_reader(directory)
            assert is_right_or_refused(old)
            file = segments_of(directory, "left")[place]
            damage_a_copy(directory, file, damage)
            damage(file)
            is_right_or_refused(old)
            assert not read_anew(directory)
            assert "left" in writer.check()
            assert not read_anew(directory)
            build(writer, "left", END)
            assert read_anew(directory)
            assert is_right_or_refused(old)


@pytest.mark.parametrize("damage", list(DAMAGES.values()), ids=list(DAMAGES))
def test_without_a_whole_manifest_readers_refuse_and_the_next_writer_builds_everything(damage):
    with fast_directory() as directory:
        fill(directory)
        damage(directory / "manifest")
        assert not read_anew(directory)
        seq = Seq("a store", 0, 1_000)
        writer = SegmentsWriter(directory, SPECS, seq, dict.fromkeys(SPECS, known(END)), SystemClock())
        assert set(writer.to_build) == set(SPECS)
        for name in SPECS:
            build(writer, name, END)
        assert read_anew(directory)


def test_a_reader_that_has_mapped_a_segment_goes_on_when_it_is_deleted():
    with fast_directory() as directory:
        fill(directory)
        reader = open_reader(directory)
        for file in directory.glob("*.segment"):
            file.unlink()
        assert is_right_or_refused(reader)
        assert not read_anew(directory)


def test_after_a_start_of_the_system_nothing_is_believed_unread(monkeypatch):
    with fast_directory() as directory:
        fill(directory)
        verified = []
        monkeypatch.setattr("stores.segments.file.MappedFile._verify", lambda file: verified.append(file.path.name))
        assert read_anew(directory)
        assert not verified
        monkeypatch.setattr("stores.segments.read.reader.boot_id", lambda: "another")
        assert read_anew(directory)
        assert set(verified) == {path.name for name in SPECS for path in segments_of(directory, name)}


def test_after_a_start_of_the_system_the_next_writer_believes_nothing_unread(monkeypatch):
    """Its manifest is one of this start: from then on readers believe what that names."""
    with fast_directory() as directory:
        fill(directory)
        named = {path.name for name in SPECS for path in segments_of(directory, name)}
        verified = []
        monkeypatch.setattr("stores.segments.file.MappedFile._verify", lambda file: verified.append(file.path.name))
        open_writer(directory)
        assert not verified
        monkeypatch.setattr("stores.segments.write.restart.boot_id", lambda: "another")
        open_writer(directory)
        assert set(verified) == named
