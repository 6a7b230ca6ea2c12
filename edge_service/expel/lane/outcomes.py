"""What an answer means for the events of its request. The table of docs/delivery.md, as code."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from enrich.endpoints.http import Answer, NoAnswer
from enrich.endpoints.retry_after import now_there, retry_after_s

REFUSES_US = frozenset({401, 403, 404, 410})
"""Answers that say nothing about the events: the address, or who we are, is wrong."""


class Meaning(StrEnum):
    delivered = "delivered"
    dead = "dead"
    """The endpoint will never take them."""
    halve = "halve"
    """It refuses at least one of them."""
    later = "later"
    """It may take them later."""


@dataclass(frozen=True, slots=True)
class Outcome:
    meaning: Meaning
    reason: str
    """Without payload of ours, without secrets."""
    retry_after_s: float | None = None
    """How long the endpoint wants to be left alone."""
    refuses_us: bool = False
    is_trouble: bool = False
    """It does not work now, or is asked too much: it should get less."""


@dataclass(frozen=True, slots=True)
class Table:
    """What a route's configuration says of statuses."""

    split: Collection[int]
    retried: Collection[int]

    def of(self, answer: Answer, count: int) -> Outcome:
        """`count`: events in the request."""
        status = answer.status
        if 200 <= status <= 299:
            return Outcome(Meaning.delivered, "")
        reason = _reason(answer)
        wait = retry_after_s(answer.retry_after, now_there(answer.date))
        if status == HTTPStatus.TOO_MANY_REQUESTS or status >= 500 or status in self.retried:
            return Outcome(Meaning.later, reason, wait, is_trouble=True)
        if status in self.split and count > 1:
            return Outcome(Meaning.halve, reason)
        return Outcome(Meaning.dead, reason, refuses_us=status in REFUSES_US)


def of_no_answer(error: NoAnswer) -> Outcome:
    return Outcome(Meaning.later, error.reason, is_trouble=True)


def _reason(answer: Answer) -> str:
    return f"HTTP {answer.status}: {answer.start}" if answer.start else f"HTTP {answer.status}"
