"""From where a partition is read again, after restarts, failovers, and other programs' commits."""

import pytest
from confluent_kafka import TopicPartition

from enrich.delivery.partitions.positions import Committed, Marks, bounded, start_of
from stores.table import RowVersion, row_versions
from sync_service.writeback.generation import OFFSETS, Generation
from sync_service.writeback.versions import _by_offset

WINDOW_MS = 600_000
NOW = 10_000_000
PRESENT = Committed(3, "server-1", ())


def start(offset: int, note: str | None, starts: dict[int, int] | None = None) -> int:
    place = TopicPartition("t", 0, offset, note or "")
    return start_of(place, starts or {0: 10}, PRESENT, NOW, WINDOW_MS)[0]


def note(generation: int, incarnation: str, *marks: tuple[int, int]) -> str:
    return Committed(generation, incarnation, marks).to_text()


@pytest.mark.parametrize(
    ("offset", "text", "expected"),
    [
        (-1001, None, 10),
        (500, note(3, "server-1"), 500),
        (500, None, 500),
        (500, "made by a tool", 500),
        (5, None, 10),
        (500, note(1, "server-1"), 10),
        (500, note(3, "server-2", (NOW - 700_000, 200), (NOW - 650_000, 300), (NOW - 1_000, 480)), 300),
        (500, note(3, "server-2", (NOW - 1_000, 480)), 480),
        (500, note(3, "server-2"), 500),
        (500, note(3, "server-2", (NOW - 700_000, 2)), 10),
    ],
)
def test_where_reading_begins(offset: int, text: str | None, expected: int) -> None:
    assert start(offset, text) == expected


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 0, 3_600_000])
def test_how_far_it_goes_back_is_by_the_clock_of_who_committed(ahead_ms: int) -> None:
    """Whoever had the partition before may have been on a host whose clock is another one."""
    then = NOW + ahead_ms
    marks = ((then - 700_000, 200), (then - 650_000, 300), (then - 1_000, 480))
    committed = Committed(3, "server-2", marks, at_ms=then)
    assert start(500, committed.to_text()) == 300
    assert committed.on_clock_of(NOW) == ((NOW - 700_000, 200), (NOW - 650_000, 300), (NOW - 1_000, 480))


def test_marks_are_few_and_reach_back_beyond_the_window() -> None:
    marks = Marks(WINDOW_MS)
    for minute in range(60):
        for second in range(60):
            marks.add((minute * 60 + second) * 1_000, minute * 60 + second)
    kept = marks.all()
    assert len(kept) <= 12
    rewound = Committed(3, "x", kept).rewound(3_600_000, WINDOW_MS)
    assert rewound is not None and 2_900 <= rewound <= 3_000


def test_what_was_reached_beyond_a_rewind_does_not_count_any_more() -> None:
    marks = Marks(WINDOW_MS, ((0, 5), (100_000, 50), (200_000, 500)))
    marks.forget_after(50)
    assert marks.all() == ((0, 5), (100_000, 50))


def test_records_before_a_generations_start_are_of_the_one_before() -> None:
    generation = Generation(3, "id", {0: 100, 1: 0})
    assert [generation.version(0, 99), generation.version(0, 100), generation.version(1, 0)] == [
        2 * OFFSETS + 99,
        3 * OFFSETS + 100,
        3 * OFFSETS,
    ]
    assert Generation.from_text(generation.to_text()) == generation
    places = [(0, 99), (0, 100), (0, 101), (1, 0), (2, 5)]  # of a whole batch at once
    records = row_versions(RowVersion(b"k", partition, offset, 0, b"") for partition, offset in places)
    assert _by_offset(records, generation).tolist() == [generation.version(*place) for place in places]


def test_what_is_committed_fits_beside_an_offset_however_many_nodes_the_store_has() -> None:
    nodes = [f"{number:040x}" for number in range(100)]
    incarnation = bounded("/".join(",".join(part) for part in (nodes, nodes)))
    marks = Marks(1_000_000)
    for now in range(0, 5_000_000, 1_000):
        marks.add(10**12 + now, 2**39 + now)
    assert len(Committed(8_191, incarnation, marks.all(), "b" * 12).to_text()) < 1_000
    assert incarnation != bounded("/".join(",".join(part) for part in (nodes, nodes[::-1])))
    assert bounded("of one server") == "of one server"


@pytest.mark.parametrize(
    ("more", "born", "at_ms"), [("", "", None), (',"b"', "b", None), (',"b",7', "b", 7), (',"b",null', "b", None)]
)
def test_what_an_earlier_release_committed_is_read(more: str, born: str, at_ms: int | None) -> None:
    assert Committed.from_text(f'[3,"server-1",[[1,2]]{more}]') == Committed(3, "server-1", ((1, 2),), born, at_ms)
