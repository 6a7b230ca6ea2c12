"""What an observer takes to go on where another one was."""

import tracemalloc

from enrich.verdict import MinuteVerdict, State, Up, encoded
from enrich.verdict.minute import MOST_NAMES, HopVerdict
from observe_service.watching.verdict_log import Written


def test_verdicts_of_two_days_are_not_in_memory_all_at_once() -> None:
    names = [f"plays.raw/0/{2 * number}" for number in range(MOST_NAMES)]
    hop = HopVerdict("expel", "acme", came=MOST_NAMES, waiting=MOST_NAMES, names={"waiting": names})
    value = encoded(MinuteVerdict("acme", 100, State.SETTLED, Up.DOWN, [hop], lots=[None]))
    written = Written([(minute, value) for minute in range(100, 130)], None, [], [])

    def peak(count: int) -> int:
        tracemalloc.start()
        assert sum(1 for _ in written.verdicts(130 - count)) == count
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(30) < 3 * peak(1)
