"""What is known of a topic is kept, counted, and found out when it is damaged."""

import numpy as np
import pytest

from enrich.base.errors import CorruptState, Retryable
from sync_service.sources.known import rows as known_rows
from sync_service.sources.known.rows import KnownRows, digests_of
from sync_service.sources.polled.source import Progress


def apply(known, rows, *, positions=None):
    """Takes in key -> value, None for a tombstone."""
    keys = list(rows)
    deleted = np.array([rows[key] is None for key in keys], np.bool_)
    digests = digests_of([rows[key] or b"" for key in keys])
    known.apply(keys, known.lookup(keys).slots, digests, deleted, positions or {0: 1})


def unseen(known, seen_keys):
    seen = np.zeros(known.slots, np.bool_)
    seen[known.lookup(seen_keys).slots] = True
    return {key for keys, _ in known.unseen(seen) for key in keys}


def test_what_was_applied_and_flushed_is_there_after_a_restart(tmp_path):
    known = KnownRows.make(tmp_path / "k", "topic-1")
    apply(known, {b"a": b"1", b"": b"empty key", b"c": b"3"})
    apply(known, {b"a": b"2", b"c": None, b"unknown": None}, positions={0: 7, 3: 9})
    known.note(progress=Progress(whole_at_ms=5, position=[["x", None]]), caught_up_ms=11)
    known.flush()
    known.close()
    known = KnownRows.open(tmp_path / "k")
    assert (known.topic_id, known.rows, known.positions) == ("topic-1", 2, {0: 7, 3: 9})
    assert (known.progress, known.caught_up_ms) == (Progress(whole_at_ms=5, position=[["x", None]]), 11)
    found = known.lookup([b"a", b"", b"c", b"unknown"])
    assert (found.slots >= 0).tolist() == [True, True, False, False]
    assert (found.digests == digests_of([b"2", b"empty key", b"", b""])).tolist()[:2] == [True, True]
    assert unseen(known, [b"a"]) == {b""}
    known.close()


def test_a_slot_is_never_given_twice(tmp_path):
    known = KnownRows.make(tmp_path / "k", "t")
    for number in range(5):
        apply(known, {b"%d" % each: b"v" for each in range(number, number + 100)})
        apply(known, {b"%d" % each: None for each in range(number, number + 50)})
    keys = [b"%d" % each for each in range(200)]
    slots = known.lookup(keys).slots
    alive = slots[slots >= 0]
    assert len(set(alive.tolist())) == len(alive) == known.rows
    assert alive.max() < known.slots
    known.close()


def test_slots_of_rows_that_are_gone_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(known_rows, "_FEW_SLOTS", 1_000)
    known = KnownRows.make(tmp_path / "k", "t")
    for number in range(5):
        keys = [b"%d-%d" % (number, each) for each in range(300)]
        assert known.is_sparse == (number == 4)
        apply(known, dict.fromkeys(keys, b"v"))
        assert not known.is_sparse or number == 4
        apply(known, dict.fromkeys(keys[10:], None))
    assert known.rows == 50
    known.close()


def test_a_missing_row_is_noticed_when_all_are_looked_through(tmp_path):
    known = KnownRows.make(tmp_path / "k", "t")
    apply(known, {b"a": b"1", b"b": b"2"})
    known._database.write({}, [b"ra"])
    with pytest.raises(CorruptState, match="1 of 2 known rows are left"):
        unseen(known, [b"b"])
    known.close()


def test_nothing_or_another_format_is_corrupt_and_a_second_writer_waits(tmp_path):
    with pytest.raises(CorruptState):
        KnownRows.open(tmp_path / "nothing")
    known = KnownRows.make(tmp_path / "k", "t")
    with pytest.raises(Retryable, match="another process"):
        KnownRows.open(tmp_path / "k")
    known._database.write({b"m": b'{"format": 99}'})
    known.flush()
    known.close()
    with pytest.raises(CorruptState, match="cannot be read"):
        KnownRows.open(tmp_path / "k")
