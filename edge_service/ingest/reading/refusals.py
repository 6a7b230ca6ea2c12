"""What a sender is told when a request is not accepted."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

MOST_NAMED = 20
"""So many bad events of a request are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class BadEvent:
    """An event that cannot be written."""

    index: int
    """Its number in the request, from 0."""
    field: str | None
    """The field that is wrong; None for the event as a whole."""
    reason: str


class Refused(Exception):
    """The request is refused with this status. Nothing of it was produced, unless `what` says that it may be."""

    def __init__(self, status: HTTPStatus, what: str, bad: Sequence[BadEvent] = ()) -> None:
        super().__init__(what)
        self.status = status
        self.what = what
        self.bad = bad


def named(bad: Sequence[BadEvent]) -> str:
    """The first bad events, in one sentence."""
    listed = "; ".join(f"event {b.index}{f', {b.field}' if b.field else ''}: {b.reason}" for b in bad[:MOST_NAMED])
    return listed if len(bad) <= MOST_NAMED else f"{listed}; and {len(bad) - MOST_NAMED} more"
