"""How a stage hears that it is to end: by a signal, or by the marker in its checkpoint that `enrich stop` leaves."""

import json
import logging
import threading
import time
from typing import Protocol

from enrich.base.error_wire import from_wire, to_wire
from enrich.base.errors import EnrichError, Retryable

_log = logging.getLogger(__name__)

_ASK_EVERY_S = 1.0
"""A checkpoint may be in a store that counts requests."""
_REMIND_S = 60.0
_OUTCOME = "enrich-stop-outcome"
"""Of the text in the checkpoint that says why the stage did not drain when it was told to."""


class Marked(Protocol):
    """The part of a checkpoint that is needed here."""

    def stop_marked_at(self) -> int | None: ...
    def tell_to_stop(self) -> None: ...
    def forget_stop(self) -> None: ...
    def read(self, name: str) -> str | None: ...
    def write(self, name: str, text: str) -> None: ...
    def delete(self, name: str) -> None: ...


class StopOrder:
    """Somebody's word that the stage is to end."""

    def __init__(self, checkpoint: Marked, signalled: threading.Event) -> None:
        """A marker that is there already is for a driver before this one, or left over."""
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
        """Whoever left the marker that was there at the start hears that the driver before this one has ended."""
        if self._before is not None and self._marked_at() == self._before:
            self._checkpoint.forget_stop()

    def obeyed(self, failure: EnrichError | None) -> None:
        """Whoever left a marker hears that the stage has ended, and what kept it from draining."""
        if failure is not None and self._marked_at() is not None:
            self._checkpoint.write(_OUTCOME, json.dumps(to_wire(failure)))
        self._checkpoint.forget_stop()

    def _marked_at(self) -> int | None:
        try:
            return self._checkpoint.stop_marked_at()
        except Retryable as error:
            # Neither is the stage told to stop, nor need it end: its batches have patience of their own.
            if self._warned_at is None or time.monotonic() - self._warned_at >= _REMIND_S:
                self._warned_at = time.monotonic()
                _log.warning("the checkpoint cannot be asked whether to stop", extra={"reason": str(error)})
            return self._before


def tell_to_stop(checkpoint: Marked) -> None:
    """What the stage says of its end is read by `require_drained`."""
    checkpoint.delete(_OUTCOME)
    checkpoint.tell_to_stop()


def require_drained(checkpoint: Marked) -> None:
    """Raises what kept the stage from draining."""
    text = checkpoint.read(_OUTCOME)
    if text is not None:
        raise from_wire(json.loads(text))
