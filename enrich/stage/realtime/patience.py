"""How long a slot waits for its client."""

import logging
import os
import threading
import time

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0


class Patience:
    """Ends this process if what is inside the block takes longer. While brokers come back, calls of the client have
    exceeded their own time-outs by minutes; Spark begins the slot again, which fences whatever this one might still do.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._done = threading.Event()
        threading.Thread(target=self._watch, name="patience", daemon=True).start()

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._since = None

    def close(self) -> None:
        self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(_LOOK_EVERY_S):
            since = self._since
            if since is not None and time.monotonic() - since > self._seconds:
                _log.error("the client does not return; this worker ends, and its slot begins again")
                os._exit(1)
