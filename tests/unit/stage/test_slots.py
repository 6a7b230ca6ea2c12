"""What slots note with their offsets, and which partitions they read."""

from collections import Counter

import numpy as np
import pytest

from enrich.base.errors import WouldLoseData
from enrich.stage.realtime.assignment import assigned
from enrich.stage.realtime.counts import Counts
from enrich.stage.realtime.notes import Note
from enrich.stage.realtime.progress import Mark
from enrich.stage.task.report import BatchReport
from enrich.tally.lags import NO_LAG, Lag
from tests.support.seed import random_source


def random_counts(source):
    statuses = [[source.randrange(10**9) for _ in range(7)] for _ in range(2)]
    report = BatchReport("a-host", [], {"users": 1.5, "devices": None}, 0.0, 0.0, 10**8)
    times = np.array([source.randrange(10**6) for _ in range(100)])
    return Counts(
        Counter(events=source.randrange(10**12), dropped=5, dead_letters=1),
        Counter({f"route-{n}": source.randrange(10**9) for n in range(5)}),
        statuses,
        1.25,
        0.5,
        report,
        Lag.of(times, times + 50, 10**6),
    )


def test_a_note_is_read_as_it_was_written():
    counts = random_counts(random_source("notes"))
    assert Note.of_text(Note("a-run", 3).to_text()) == Note("a-run", 3)
    assert Note.of_text(Note("a-run", 3, counts).to_text()) == Note("a-run", 3, counts)


@pytest.mark.parametrize(("routes", "kept"), [(5, True), (60, True), (2_000, False)])
def test_a_note_is_never_longer_than_brokers_take(routes, kept):
    counts = random_counts(random_source("long notes"))
    counts.routes = Counter({f"a-route-of-this-name-{n}": 10**9 for n in range(routes)})
    counts.lag = Lag.of(np.arange(0, 10**9, 10**5), np.arange(0, 10**9, 10**5) + 7, 2 * 10**9)
    text = Note("a-run", 0, counts).to_text()
    assert len(text.encode()) <= 4_000
    found = Note.of_text(text)
    assert found is not None and found.counts is not None
    assert found.counts.numbers == counts.numbers, "how many events there were is always said"
    assert found.counts.lag in (NO_LAG, counts.lag)
    assert (found.counts.routes == counts.routes) is kept


_COUNTS = '{"n":{},"r":{},"s":[],"t":[0,0],"w":null,"l":"AA=="}'
STRANGE = [None, "", "some words", "[]", "null", "5", '{"run": "a"}', '{"run": "a", "slot": null}', '{"topic": "a"}']


@pytest.mark.parametrize("text", [*STRANGE, *(f'{{"run":"a","slot":1,"counts":{c}}}' for c in ('{"n":1}', _COUNTS))])
def test_what_somebody_else_has_written_is_no_note(text):
    assert Note.of_text(text) is None


def test_what_was_counted_since_is_the_difference():
    source = random_source("since")
    earlier, lag = random_counts(source), Lag.of(np.array([5]), np.array([9]), 20)
    now = Counts(
        earlier.numbers + Counter(events=3),
        earlier.routes + Counter({"route-1": 2}),
        [[each + 1 for each in statuses] for statuses in earlier.statuses],
        earlier.took_s + 1,
        earlier.waited_s,
        earlier.newest,
        earlier.lag + lag,
    )
    new = now.since(earlier)
    assert new.numbers == Counter(events=3)
    assert new.routes == Counter({"route-1": 2})
    assert new.statuses == [[1] * 7] * 2
    assert new.lag == lag
    assert now.since(Counts()).statuses == now.statuses
    assert new.report is not None and new.report.took_s == pytest.approx(1)


def test_each_slot_has_as_many_partitions_of_each_topic_as_the_others_give_or_take_one():
    slots = assigned({"a": [0, 1, 2], "b": [0, 1, 2, 3, 4]}, 3)
    assert sorted(each for slot in slots for each in slot) == [
        *(("a", number) for number in range(3)),
        *(("b", number) for number in range(5)),
    ]
    assert {len(slot) for slot in slots} <= {2, 3}
    assert assigned({"a": [0]}, 1) == [[("a", 0)]]


def test_a_group_that_has_lost_offsets_is_noticed():
    mark = Mark().begun({"in": [0, 1]})
    mark.require_in([("in", 0), ("in", 1), ("new", 0)], "a-group", "enrich")
    with pytest.raises(WouldLoseData, match="a-group has no offsets any more of 1 of 2") as raised:
        mark.require_in([("in", 0)], "a-group", "enrich")
    assert raised.value.where == "topic in"
