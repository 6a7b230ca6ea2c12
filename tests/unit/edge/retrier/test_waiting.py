"""When a record that waits is due, by a clock that moves only when the test says so."""

from dataclasses import dataclass

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE

from edge_service.retrier.waiting import Limits, Line, Moment

MOST = Limits(100, 2**20)
PAUSE_S = 30.0
_START_MS = 1_000_000_000


@dataclass
class Record:
    """As much of the client's message as a line looks at."""

    at: int
    timestamp_ms: int | None
    size: int = 10
    header_size: int = 0

    def offset(self) -> int:
        return self.at

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"x" * self.size

    def headers(self) -> list[tuple[str, bytes]]:
        return [("h", b"x" * self.header_size)] if self.header_size else []

    def timestamp(self) -> tuple[int, int]:
        if self.timestamp_ms is None:
            return TIMESTAMP_NOT_AVAILABLE, -1
        return TIMESTAMP_CREATE_TIME, self.timestamp_ms


class Partition:
    """A line whose clock starts at 0 s."""

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        self.line = Line("waiting", 0, pause_s)
        self._next = 0

    def read(self, *written_s: float | None, at_s: float = 0.0, size: int = 10, header_size: int = 0) -> None:
        """Records with these times are read at this moment."""
        for written in written_s:
            stamp = None if written is None else _START_MS + round(written * 1000)
            moment = Moment(_START_MS + round(at_s * 1000), at_s)
            self.line.add(Record(self._next, stamp, size, header_size), moment)  # type: ignore[arg-type] # as much as it needs
            self._next += 1

    def due(self, at_s: float, most: Limits = MOST) -> list[int]:
        return [message.offset() or 0 for message in self.line.due(at_s, most)]

    def forward(self, at_s: float, most: Limits = MOST) -> list[int]:
        messages = self.line.due(at_s, most)
        self.line.forwarded(messages)
        return [message.offset() or 0 for message in messages]


def test_a_record_is_due_when_its_pause_has_passed_since_it_was_written() -> None:
    one = Partition()
    one.read(-10.0, -5.0)
    assert one.line.due_s == 20.0
    assert one.due(19.999) == []
    assert one.due(20.0) == [0]
    assert one.due(25.0) == [0, 1]


def test_a_record_that_waited_while_nobody_ran_is_due_at_once() -> None:
    one = Partition()
    one.read(-3600.0, -40.0, -29.0)
    assert one.due(0.0) == [0, 1]


def test_records_are_forwarded_in_their_order_though_a_later_one_is_due_earlier() -> None:
    one = Partition()
    one.read(0.0, -100.0)
    assert one.due(29.0) == []
    assert one.forward(30.0) == [0, 1]


@pytest.mark.parametrize("written", [0.05, 3600.0, 365 * 86_400.0])
def test_a_timestamp_in_the_future_makes_a_record_wait_no_longer_than_its_pause(written: float) -> None:
    one = Partition()
    one.read(written)
    assert one.due(29.9) == []
    assert one.due(30.0) == [0]


def test_a_record_without_a_timestamp_waits_its_pause_from_when_it_was_read() -> None:
    one = Partition()
    one.read(None, at_s=5.0)
    assert (one.due(34.9), one.due(35.0)) == ([], [0])


def test_records_of_a_clock_that_is_ahead_keep_their_distances_and_do_not_wait_one_after_the_other() -> None:
    ahead = 86_400.0
    one = Partition()
    one.read(ahead, ahead + 1, ahead + 2)
    assert one.forward(30.0) == [0, 1, 2]  # read together: none was written later than now
    # Written a second apart, and read much later: their turn has come.
    one.read(ahead + 3, ahead + 10, at_s=100.0)
    assert one.due(100.0) == [3, 4]


def test_one_record_from_far_in_the_future_does_not_take_the_pause_from_those_behind_it() -> None:
    one = Partition()
    one.read(365 * 86_400.0, 0.05, 0.06)
    assert one.due(29.0) == []
    assert one.due(30.0) == [0, 1, 2]


def test_a_wall_clock_that_is_set_while_records_wait_changes_nothing_for_them() -> None:
    one = Partition()
    one.read(0.0)
    later = Moment(_START_MS - 86_400_000, 10.0)  # set back by a day
    one.line.add(Record(1, _START_MS), later)  # type: ignore[arg-type] # as much as it needs
    assert one.due(30.0) == [0]
    assert one.due(40.0) == [0, 1]  # by its pause from when it was read


def test_a_batch_is_bounded_by_records_and_bytes_and_a_large_record_goes_alone() -> None:
    one = Partition()
    one.read(-60.0, -60.0, -60.0)
    one.read(-60.0, size=5_000_000)
    assert one.forward(0.0, Limits(2, 10_000)) == [0, 1]
    assert one.forward(0.0, Limits(10, 10_000)) == [2]
    assert one.forward(0.0, Limits(10, 10_000)) == [3]
    assert one.line.due_s is None


def test_a_line_is_over_its_limits_by_records_or_by_bytes() -> None:
    one = Partition()
    one.read(0.0, 0.0)
    assert not one.line.is_over(Limits(3, 1_000_000))
    assert one.line.is_over(Limits(2, 1_000_000))
    assert one.line.is_over(Limits(3, 1_000))
    assert not one.line.is_all_due(29.0)
    assert one.line.is_all_due(30.0)


def test_headers_count_among_the_bytes_of_a_line() -> None:
    one = Partition()
    one.read(0.0, header_size=50_000)
    assert one.line.is_over(Limits(3, 50_000))


def test_the_position_passes_the_markers_of_transactions_at_the_end_but_no_record_that_waits() -> None:
    one = Partition()
    one.read(0.0, 0.0)
    one.line.ended(5)
    assert one.line.position == 0
    one.forward(30.0, Limits(1, 1_000_000))
    assert one.line.position == 1
    one.forward(30.0)
    assert one.line.position == 5
    one.line.ended(7)
    assert one.line.position == 7
