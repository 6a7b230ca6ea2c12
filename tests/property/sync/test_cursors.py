"""No change is missed, however late it is committed: a model of transactions and readings."""

from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from sync_service.sources.polled.cursors import CursorPosition, Mark, trusted_until_ms

OVERLAP = 5_000


@dataclass(frozen=True)
class Transaction:
    """Gives a row its cursor's value at its beginning, as `now()` does, and shows it at its end."""

    begins_ms: int
    ends_ms: int
    is_hidden: bool
    step_ms: int

    @property
    def value(self) -> int:
        return self.begins_ms - self.begins_ms % self.step_ms


def _moments(first: int, last: int) -> st.SearchStrategy[int]:
    """Few enough that they fall close together, and none the same as another by chance alone."""
    return st.integers(first // 250, last // 250).map(lambda quarter: quarter * 250)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    begins = draw(_moments(1_000_000, 1_020_000))
    is_hidden = draw(st.booleans())
    # One that hides its start has to end within the overlap, less what the interval between two readings takes.
    longest = OVERLAP - 1 if is_hidden else 40_000
    step = draw(st.sampled_from([1, 1000]))
    return Transaction(begins, begins + draw(_moments(0, longest)), is_hidden, step)


_HIDDEN = Transaction(1_000_000, 1_004_500, is_hidden=True, step_ms=1)
_QUICK = Transaction(1_000_500, 1_000_500, is_hidden=False, step_ms=1)


@example([_HIDDEN, _QUICK], [1_000_250, 1_001_000, 1_004_000, 1_005_000], 0)
@given(
    st.lists(transactions(), min_size=1, max_size=12),
    st.lists(_moments(1_000_000, 1_070_000), min_size=1, max_size=40),
    st.integers(0, 3),
)
def test_every_transaction_is_read_by_the_first_reading_that_can_see_it(
    work: list[Transaction], moments: list[int], gap_ms: int
) -> None:
    read: set[Transaction] = set()
    position: CursorPosition | None = None
    for moment in sorted(set(moments)):
        snapshot = moment + gap_ms  # what runs is looked at, then the snapshot is taken, then the clock is read
        taken = snapshot + gap_ms
        horizon = min([t.begins_ms for t in work if not t.is_hidden and t.begins_ms <= moment < t.ends_ms] + [moment])
        seen = {t for t in work if t.ends_ms <= snapshot}
        mark = Mark(taken, str(newest(seen)))
        if position is None:
            read |= seen
            trusted = trusted_until_ms(horizon, moment, OVERLAP)
            earlier = Mark(trusted, str(newest(seen) - (moment - trusted)))
            position = CursorPosition((earlier, mark), horizon, is_settled=True)
        else:
            bound = position.bound(OVERLAP)
            read |= {t for t in seen if t.value > int(str(bound.value))}
            position = position.advanced(mark, horizon, OVERLAP)
        assert read >= seen
    assert position is not None and len(position.marks) <= 65
    assert CursorPosition.from_json(position.as_json()) == position


@given(
    st.lists(st.tuples(st.integers(0, 50_000), st.integers(1, 60_000)), min_size=1, max_size=12),
    st.lists(st.integers(0, 150_000), min_size=2, max_size=40),
)
def test_a_sequence_is_settled_only_when_no_transaction_is_older_than_its_marks(
    spans: list[tuple[int, int]], moments: list[int]
) -> None:
    """Numbers are taken in the order of the beginnings; until a mark is old enough everything is read."""
    work = [(begins, begins + lasts, number) for number, (begins, lasts) in enumerate(sorted(spans))]
    read: set[int] = set()
    position: CursorPosition | None = None
    for moment in sorted(set(moments)):
        horizon = min([begins for begins, ends, _ in work if begins <= moment < ends] + [moment])
        seen = {number for _, ends, number in work if ends <= moment}
        mark = Mark(moment, str(max(seen, default=-1)))
        if position is None:
            read |= seen
            position = CursorPosition((mark,), horizon, is_settled=False)
            continue
        settled = position.is_settled
        bound = int(str(position.bound(OVERLAP).value))
        read |= {number for number in seen if number > bound or not settled}
        position = position.advanced(mark, horizon, OVERLAP)
        if settled:
            assert read >= seen


def newest(seen: set[Transaction]) -> int:
    return max((t.value for t in seen), default=0)


@dataclass(frozen=True)
class Write:
    """On the primary: begins, which is its cursor's value, writes first at most an overlap later, and ends."""

    begins_ms: int
    waits_ms: int
    lasts_ms: int

    @property
    def writes_ms(self) -> int:
        return self.begins_ms + self.waits_ms

    @property
    def ends_ms(self) -> int:
        return self.writes_ms + self.lasts_ms


_WRITES = st.builds(Write, _moments(1_000_000, 1_020_000), _moments(0, OVERLAP - 250), _moments(0, 40_000))


@example([Write(1_000_000, 0, 20_000), Write(1_010_000, 0, 0)], [(1_001_000, 0), (1_012_000, 0), (1_030_000, 0)])
@example(  # replay stood still while the standby's clock went on
    [Write(1_009_750, 0, 0), Write(1_009_000, 1_250, 20_000)],
    [(1_010_000, 0), (1_016_000, 6_000), (1_022_000, 12_000), (1_023_000, 0), (1_031_000, 0)],
)
@given(
    st.lists(_WRITES, min_size=1, max_size=12),
    st.lists(st.tuples(_moments(1_000_000, 1_090_000), _moments(0, 30_000)), min_size=2, max_size=40),
)
def test_a_standby_misses_no_late_commit_however_far_it_lags(
    work: list[Write], readings: list[tuple[int, int]]
) -> None:
    """A reading is a moment of the standby's clock, and how far its replay lags then."""
    numbers = {write: number for number, write in enumerate(sorted(set(work), key=lambda w: w.writes_ms))}
    read: set[Write] = set()
    position: CursorPosition | None = None
    replayed = 0
    for moment, lag in sorted(readings):
        replayed = max(replayed, moment - lag)
        seen = {w for w in numbers if w.ends_ms <= replayed}
        next_write = sum(w.writes_ms <= replayed for w in numbers)
        running = [numbers[w] for w in numbers if w.writes_ms <= replayed < w.ends_ms]
        newest_value = max((w.begins_ms for w in seen), default=0) - OVERLAP
        mark = Mark(moment, str(newest_value), next_write)
        settled = position is not None and position.is_settled
        bound = 0 if position is None else int(str(position.bound(OVERLAP).value))
        read |= {w for w in seen if w.begins_ms > bound or not settled}
        assert read >= seen
        before = position or CursorPosition((), 0, is_settled=False)
        position = before.advanced(mark, before.horizon_of(mark, min([*running, next_write])), OVERLAP)
    assert position is not None and CursorPosition.from_json(position.as_json()) == position
