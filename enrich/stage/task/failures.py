"""Errors of workers on their way to the driver: Spark makes text of them, which is read back here."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from enrich.base.error_wire import from_wire, to_wire
from enrich.base.errors import EnrichError, Fatal

MARK = "enrich-error:"
_REPORTED = re.compile(re.escape(MARK) + r"(\{.*\})")


class ReportedFailure(Exception):
    """An error of our tree in a traceback: for people, and in the line after it for `from_report`."""


@contextmanager
def reported_to_driver() -> Iterator[None]:
    """What a worker raises inside arrives at the driver as it was."""
    try:
        yield
    except EnrichError as error:
        raise ReportedFailure(f"{error}\n{MARK}{json.dumps(to_wire(error))}") from error


def from_report(text: str) -> EnrichError:
    """The error that a worker reported, found in Spark's message; a Fatal with the message's first line for others."""
    found = _REPORTED.search(text)
    if found is None:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
        return Fatal(f"Spark: {first}", next_step="see the log lines above; progress is kept in the checkpoint")
    return from_wire(json.loads(found[1]))


def failure_of(error: BaseException) -> EnrichError:
    """What ended a job of Spark's, from the exception that its action or query raised: the error of a worker as it was
    (Unreachable, BadRecord, ...), a Fatal for others."""
    return from_report(str(error))
