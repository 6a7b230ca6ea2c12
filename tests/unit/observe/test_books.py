"""What the observer remembers of what nodes have said."""

import tracemalloc

from enrich.tally import Lags, Node, NodeKind, Report, Tally
from observe_service.verdicts.books import Books

STAGE, MINUTE = Node("p", NodeKind.stage, "prepare"), 100
AT_MS = MINUTE * 60_000 + 30_000


def said(reporter: str, sequence: int) -> Report:
    lag = Lags.of([AT_MS], [AT_MS + 5], [AT_MS + 7]).of_minute(MINUTE)
    return Report(STAGE, reporter, sequence, AT_MS, [Tally(minute=MINUTE, lag=lag)])


def test_the_lags_of_a_report_count_once_whoever_else_has_said_as_much() -> None:
    books, sequences = Books(), (0, 1, 65_536, 2**32, 2**40 - 1)
    reports = [said(reporter, sequence) for reporter in ("query/plays/0", "query/plays/1") for sequence in sequences]
    for report in [*reports, *reversed(reports)]:
        books.take(report, AT_MS, lambda *_: 0)
    assert books.lag(STAGE, MINUTE).went.count == len(reports)


def test_lags_that_the_verdict_before_has_are_not_taken_again() -> None:
    """Up to the very millisecond of the newest report in it."""
    books = Books()
    books.take(said("query/plays/0", 1), AT_MS, lambda *_: AT_MS)
    assert books.lag(STAGE, MINUTE).went.count == 0
    books.take(said("query/plays/0", 2), AT_MS, lambda *_: AT_MS - 1)
    assert books.lag(STAGE, MINUTE).went.count == 1


def test_the_partitions_of_a_stage_take_little_memory_for_each_minute() -> None:
    """Each of them is a reporter, and what it has said is known for two days."""
    reports, books = [said(f"query/plays/{partition}", 7) for partition in range(1_000)], Books()
    for report in reports:
        books.take(report, AT_MS, lambda *_: 0)
    tracemalloc.start()
    try:
        for report in reports:
            (tally,) = report.tallies
            next_minute = Report(STAGE, report.reporter, 8, AT_MS, [Tally(minute=MINUTE - 1, lag=tally.lag)])
            books.take(next_minute, AT_MS, lambda *_: 0)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 50_000
    assert books.lag(STAGE, MINUTE - 1).went.count == 1_000
