"""The result of one check."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    good = "good"
    warning = "warning"
    """It works, but not for ever, or not as well as it could."""
    bad = "bad"


@dataclass(frozen=True)
class Verdict:
    check: str
    """Must not change between releases: scripts use it."""
    level: Level
    what: str
    next_step: str | None = None


def good(check: str, what: str) -> Verdict:
    return Verdict(check, Level.good, what)


def warning(check: str, what: str, next_step: str) -> Verdict:
    return Verdict(check, Level.warning, what, next_step)


def bad(check: str, what: str, next_step: str | None) -> Verdict:
    return Verdict(check, Level.bad, what, next_step)
