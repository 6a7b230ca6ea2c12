"""Which snapshots fit a table and its topic, and what is then known of the history."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from enrich.base.errors import CorruptState, Retryable, WouldLoseData
from enrich.codecs import JsonDecoder
from enrich.host.claims.notes import EPOCHS, TOPIC_ID, epochs_of
from enrich.host.load.snapshots import HeadStarts, TopicNow, joined_floors, load_from_newest, require_fits
from enrich.host.tables import TopicTable
from enrich.kafka import TopicSettings
from stores.protocol import KeyKind, TableSpec
from stores.snapshots import Manifest, Snapshot
from stores.snapshots.manifest import Partition
from stores.table import HistoryFloor, Seq
from tests.support.stores.snapshots import make_snapshot

NOW = 1_700_000_000_000
HOUR = 3_600_000
COLUMNS = pa.schema([pa.field("plan", pa.string())])
TABLE = TopicTable("users", "users.v1", TableSpec(COLUMNS, JsonDecoder(COLUMNS)), True, "definition")
TOPIC = TopicNow("users.v1", "id", {0: 5, 1: 0}, {0: 100, 1: 50}, TopicSettings(), NOW)
MANIFEST = Manifest(
    pipeline="plays",
    table="users",
    topic="users.v1",
    definition="definition",
    key=KeyKind.EXACT,
    seq=Seq("s", 0, 1),
    taken_at=NOW - HOUR,
    complete_through=NOW - HOUR,
    rows=0,
    digest="0" * 16,
    partitions=(Partition(0, 90, 10, 7), Partition(1, 50, None, None)),
    notes={TOPIC_ID: "id"},
    files=(),
)


def fits(manifest=MANIFEST, topic=TOPIC):
    require_fits(Snapshot(Path("/snapshots/one"), manifest), TABLE, topic)


def test_a_recent_snapshot_of_the_same_topic_fits_up_to_its_very_ends():
    fits()
    fits(topic=replace(TOPIC, starts={0: 90, 1: 50}, ends={0: 90, 1: 50}))
    fits(replace(MANIFEST, complete_through=NOW - 12 * HOUR))
    fits(replace(MANIFEST, complete_through=NOW + 200_000))


@pytest.mark.parametrize(
    ("manifest", "topic", "reason"),
    [
        (replace(MANIFEST, definition="other"), TOPIC, "another definition"),
        (replace(MANIFEST, notes={}), TOPIC, "deleted and recreated"),
        (MANIFEST, replace(TOPIC, topic_id="other"), "deleted and recreated"),
        (MANIFEST, replace(TOPIC, ends={0: 100, 1: 50, 2: 0}, starts={0: 5, 1: 0, 2: 0}), "2 partitions, .* has 3"),
        (MANIFEST, replace(TOPIC, ends={0: 100}, starts={0: 5}), "2 partitions, .* has 1"),
        (MANIFEST, replace(TOPIC, ends={0: 89, 1: 50}), "offset 90 of partition 0, which ends at 89"),
        (MANIFEST, replace(TOPIC, starts={0: 91, 1: 0}), "offset 90 of partition 0, which begins at 91"),
        (replace(MANIFEST, complete_through=NOW - 12 * HOUR - 1), TOPIC, "43,200 s are safe"),
        (MANIFEST, replace(TOPIC, settings=TopicSettings(delete_retention_ms=HOUR)), "1,800 s are safe"),
        (replace(MANIFEST, complete_through=NOW + 400_000), TOPIC, "a clock is wrong"),
    ],
)
def test_whatever_could_miss_a_record_is_refused_with_reason_and_place(manifest, topic, reason):
    with pytest.raises(WouldLoseData, match=rf"{reason}.*/snapshots/one"):
        fits(manifest, topic)


def test_a_table_with_history_does_not_begin_with_one_that_is_whole_only_in_the_future():
    later = replace(MANIFEST, partitions=(Partition(0, 90, 10, NOW + 365 * 24 * HOUR), Partition(1, 50, None, None)))
    fits(later)  # nobody asks a table without history for a time
    spec = TableSpec(COLUMNS, JsonDecoder(COLUMNS), history_ms=HOUR)
    with pytest.raises(WouldLoseData, match="in the future"):
        require_fits(Snapshot(Path("/snapshots/one"), later), replace(TABLE, spec=spec), TOPIC)


def test_history_goes_on_from_the_snapshot_where_the_topic_has_every_version_since():
    of_topic = {0: HistoryFloor(90, 40), 1: HistoryFloor(51, 40)}
    assert joined_floors(MANIFEST, of_topic) == {0: HistoryFloor(10, 7), 1: HistoryFloor(51, 40)}
    assert joined_floors(MANIFEST, {0: HistoryFloor(91, 40)}) == {0: HistoryFloor(91, 40)}


@pytest.mark.parametrize("note", ["[]", "5", '{"a":1}', '{"1":"x"}', '{"1":null}', "[" * 100_000, "no json"])
def test_notes_of_another_form_are_damage_and_no_bug(note):
    with pytest.raises(CorruptState):
        epochs_of({EPOCHS: note})


def test_a_snapshot_with_which_loads_end_without_a_word_is_not_begun_with_for_ever(tmp_path):
    snapshot = make_snapshot(tmp_path)
    head_starts = HeadStarts(tmp_path, "plays")
    begun = []

    def load(head_start):
        begun.append(head_start)
        if head_start is not None:
            raise Retryable("the process that loaded the table ended before it was done")
        return "loaded"

    for _ in range(3):
        with pytest.raises(Retryable):
            load_from_newest(TABLE, head_starts, load)
    assert load_from_newest(TABLE, head_starts, load) == "loaded"
    assert begun == [snapshot, snapshot, snapshot, None]


def test_the_topic_is_read_when_no_snapshot_is_good(tmp_path):
    good, bad = make_snapshot(tmp_path, at=1), make_snapshot(tmp_path, at=2)
    (bad.path / "manifest.json").write_bytes(b"{}")
    begun = []

    def load(head_start):
        begun.append(head_start)
        if head_start is not None:
            raise CorruptState("damaged")
        return "loaded"

    assert load_from_newest(TABLE, HeadStarts(tmp_path, "plays"), load) == "loaded"
    assert begun == [good, None]
    assert load_from_newest(TABLE, None, load) == "loaded"
    assert load_from_newest(TABLE, HeadStarts(tmp_path / "nowhere", "plays"), load) == "loaded"


def test_a_location_that_cannot_be_read_leaves_the_table_to_its_topic(tmp_path):
    (tmp_path / "file").touch()
    assert load_from_newest(TABLE, HeadStarts(tmp_path / "file", "plays"), lambda head_start: head_start) is None
