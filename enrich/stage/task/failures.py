"""Carries errors of workers to the driver: Spark turns them into text, which is parsed here."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from enrich.base.error_wire import from_wire, to_wire
from enrich.base.errors import EnrichError, Fatal

MARK = "enrich-error:"
_REPORTED = re.compile(re.escape(MARK) + r"(\{.*\})")


class ReportedFailure(Exception):
    """An `EnrichError` in a traceback: its text for people, and in the next line its JSON form for `from_report`."""


@contextmanager
def reported_to_driver() -> Iterator[None]:
    """An `EnrichError` that a worker raises inside the block reaches the driver unchanged."""
    try:
        yield
    except EnrichError as error:
        raise ReportedFailure(f"{error}\n{MARK}{json.dumps(to_wire(error))}") from error


def from_report(text: str) -> EnrichError:
    """The error that a worker reported in Spark's message; for other messages a Fatal with the first line."""
    found = _REPORTED.search(text)
    if found is None:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
        return Fatal(f"Spark: {first}", next_step="see the log lines above; progress is kept in the checkpoint")
    return from_wire(json.loads(found[1]))


def failure_of(error: BaseException) -> EnrichError:
    """The error that failed a Spark job, from the exception that its action or query raised: that of a worker
    (Unreachable, BadRecord, ...), or a Fatal for any other."""
    return from_report(str(error))
