"""Errors of workers come out of Spark's text as they went in."""

import pytest

from enrich.base.errors import BadRecord, Fatal, Unreachable
from enrich.stage.task.failures import ReportedFailure, from_report, reported_to_driver


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("the table users is late", where="host a", next_step="wait"),
        BadRecord('a key with "quotes" and a\nline', where=None, next_step=None),
    ],
)
def test_a_workers_error_arrives_as_it_was(error):
    with pytest.raises(ReportedFailure) as raised, reported_to_driver():
        raise error
    text = (
        f"Job aborted: task 3.0 failed: Trace\n  File x\nReportedFailure: {raised.value}\n\nDriver stacktrace:\n at y"
    )
    told = from_report(text)
    assert type(told) is type(error)
    assert (told.what, told.where, told.next_step) == (error.what, error.where, error.next_step)


def test_other_failures_are_fatal_and_keep_sparks_first_line():
    told = from_report("\n[STREAM_FAILED] Query terminated\nmore")
    assert isinstance(told, Fatal)
    assert told.what == "Spark: [STREAM_FAILED] Query terminated"
