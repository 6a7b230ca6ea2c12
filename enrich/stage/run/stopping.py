"""How a stage is asked to stop: by a signal, or by the marker that `enrich stop` writes into its checkpoint."""

import json
import logging
import threading
import time
from typing import Protocol

from enrich.base.error_wire import from_wire, to_wire
from enrich.base.errors import EnrichError, Retryable

_log = logging.getLogger(__name__)

_ASK_EVERY_S = 1.0
"""Not more often: a checkpoint may be in an object store that charges for requests."""
_REMIND_S = 60.0
_OUTCOME = "enrich-stop-outcome"
"""The text in the checkpoint that says why the stage did not drain when it was asked to stop."""


class Marked(Protocol):
    """The part of a checkpoint that is needed here."""

    def stop_marked_at(self) -> int | None: ...
    def request_stop(self) -> None: ...
    def forget_stop(self) -> None: ...
    def read(self, name: str) -> str | None: ...
    def write(self, name: str, text: str) -> None: ...
    def delete(self, name: str) -> None: ...


class StopOrder:
    """Whether somebody asked the stage to stop."""

    def __init__(self, checkpoint: Marked, signalled: threading.Event) -> None:
        """A marker that already exists is for an earlier driver, or a leftover."""
        self._checkpoint = checkpoint
        self._signalled = signalled
        self._before = checkpoint.stop_marked_at()
        self._asked_at = time.monotonic()
        self._warned_at: float | None = None

    def is_given(self) -> bool:
        now = time.monotonic()
        if not self._signalled.is_set() and now - self._asked_at >= _ASK_EVERY_S:
            self._asked_at = now
            if self._marked_at() not in (None, self._before):
                self._signalled.set()
        return self._signalled.is_set()

    def forget_old(self) -> None:
        """Deletes the marker that existed at the start: the earlier driver that it was for has ended. Whoever wrote it
        may still wait, and is told that the stage runs on."""
        if self._before is not None and self._marked_at() == self._before:
            self._checkpoint.write(_OUTCOME, json.dumps(to_wire(_begun_meanwhile())))
            self._checkpoint.forget_stop()

    def obeyed(self, failure: EnrichError | None) -> None:
        """Deletes the marker: the stage has ended. Before that it records why the stage did not drain."""
        if failure is not None and self._marked_at() is not None:
            self._checkpoint.write(_OUTCOME, json.dumps(to_wire(failure)))
        self._checkpoint.forget_stop()

    def _marked_at(self) -> int | None:
        try:
            return self._checkpoint.stop_marked_at()
        except Retryable as error:
            # This neither asks the stage to stop nor fails it: its batches have timeouts of their own.
            if self._warned_at is None or time.monotonic() - self._warned_at >= _REMIND_S:
                self._warned_at = time.monotonic()
                _log.warning("cannot look for the stop marker in the checkpoint", extra={"reason": str(error)})
            return self._before


def _begun_meanwhile() -> EnrichError:
    return Retryable("another driver of the stage has begun meanwhile, and runs", next_step="ask it to stop, too")


def still_ending() -> EnrichError:
    """Of a stage that is told to stop while it waits for the driver before it."""
    return Retryable(
        "a newer driver has shut out the one that ran, and was told to stop, too: that one ends soon, without a drain",
        next_step="see its log; the next start goes on where its progress is recorded",
    )


def request_stop(checkpoint: Marked) -> None:
    """Asks the stage to stop. `require_drained` then reads whether it drained."""
    checkpoint.delete(_OUTCOME)
    checkpoint.request_stop()


def require_drained(checkpoint: Marked) -> None:
    """Raises the error that kept the stage from draining, if there was one."""
    text = checkpoint.read(_OUTCOME)
    if text is not None:
        raise from_wire(json.loads(text))
