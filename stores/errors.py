"""The tree of errors, by what the caller should do. Drivers' errors are mapped to it where the driver is called."""

from functools import partial
from typing import Any


class EnrichError(Exception):
    """An error a person can act on: what happened, where (topic, partition, file, line), what to do next."""

    def __init__(self, what: str, *, where: str | None = None, next_step: str | None = None) -> None:
        super().__init__(what, where, next_step)
        self.what = what
        self.where = where
        self.next_step = next_step

    def __reduce__(self) -> tuple[Any, ...]:
        # Without this, an error that another process raised could not be unpickled.
        return partial(type(self), self.what, where=self.where, next_step=self.next_step), ()

    def __str__(self) -> str:
        text = self.what if self.where is None else f"{self.what} ({self.where})"
        return text if self.next_step is None else f"{text}; {self.next_step}"


class Retryable(EnrichError):
    """The same call may succeed later: back off and try again."""


class Unreachable(Retryable):
    """A server did not answer in time. Commands end with this once their deadline has passed."""


class TooSlow(Unreachable):
    """The server did not finish in time what it had begun: a smaller request may succeed."""


class BadRecord(EnrichError):
    """One record cannot be used: put it into the DLQ (events) or the quarantine (metadata), and go on."""


class RefusedForNow(BadRecord):
    """Other records make the server refuse this one: it may be accepted later, so retry before giving up."""


class CorruptState(EnrichError):
    """Local state is damaged: rebuild it from its topic."""


class Fenced(EnrichError):
    """Someone else took over: stop at once and write nothing more."""


class ConfigError(EnrichError):
    """What the user wrote or asked for cannot work: they must change it."""


class Fatal(EnrichError):
    """The program cannot do anything about it: stop and report it."""


class WouldLoseData(Fatal):
    """Refused, because going on would lose data that somebody may need."""
