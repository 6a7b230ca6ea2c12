"""One driver at a time on a checkpoint: the newer one fences the older one and begins when that has ended. Two drivers
at once would record the same batch, which fails one or both of them."""

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Protocol
from uuid import uuid4

from enrich.base.errors import Retryable
from enrich.base.processes import Identity, identify, started_at, started_since_boot

_log = logging.getLogger(__name__)

NAME = "enrich-driver"
"""The text that is in the checkpoint while a driver runs."""
_SINCE_1970_S = 1e9
"""No host has been up for so long."""
_LOOK_EVERY_S = 0.5
_PATIENCE_S = 20.0
"""A driver without events learns after 5 s that it is fenced. One that was killed on another host never deletes its
text."""


class Texts(Protocol):
    """The part of a checkpoint that is needed here."""

    def read(self, name: str) -> str | None: ...
    def write(self, name: str, text: str) -> None: ...
    def delete(self, name: str) -> None: ...


@dataclass(frozen=True)
class Driver:
    """A process that runs a stage, and the id of this run."""

    host: str
    pid: int
    started: float
    """In seconds since the host was booted: its clock may be set while the driver runs. Earlier releases wrote seconds
    since 1970."""
    run: str

    @classmethod
    def here(cls) -> "Driver":
        me = identify(os.getpid()) or Identity(os.getpid(), 0)
        return cls(socket.gethostname(), me.pid, started_since_boot(me), str(uuid4()))

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @property
    def has_died(self) -> bool:
        """False for a driver on another host, which cannot be checked."""
        if self.host != socket.gethostname():
            return False
        found = identify(self.pid)
        if found is None:
            return True
        if self.started > _SINCE_1970_S:
            return abs(started_at(found) - self.started) > 1
        return started_since_boot(found) != self.started


def is_at_work(checkpoint: Texts) -> bool:
    """Whether the checkpoint names a driver that is not known to have died."""
    text = checkpoint.read(NAME)
    return text is not None and not Driver(**json.loads(text)).has_died


def wait_for_others(checkpoint: Texts, is_stopping: Callable[[], bool], patience_s: float = _PATIENCE_S) -> None:
    """Returns once the checkpoint names no living driver. Other drivers must have been fenced before."""
    end, is_logged, before = time.monotonic() + patience_s, False, None
    while (text := checkpoint.read(NAME)) is not None and not is_stopping():
        if text != before:  # one that has begun meanwhile learns of this one no sooner than the first
            before, end = text, time.monotonic() + patience_s
        other = Driver(**json.loads(text))
        if other.has_died:
            return
        fields = {"host": other.host, "pid": other.pid}
        if time.monotonic() > end:
            _log.warning("the previous driver has not recorded its end; it may have been killed", extra=fields)
            return
        if not is_logged:
            is_logged = True
            _log.info("waiting for the previous driver to end", extra=fields)
        time.sleep(_LOOK_EVERY_S)


@contextmanager
def at_work(checkpoint: Texts) -> Iterator[None]:
    """Names this driver in the checkpoint inside the block."""
    text = Driver.here().to_text()
    checkpoint.write(NAME, text)
    try:
        yield
    finally:
        try:
            if checkpoint.read(NAME) == text:
                checkpoint.delete(NAME)
        except Retryable as error:
            _log.warning(
                "this driver is still named in the checkpoint; the next one will wait for it",
                extra={"reason": str(error)},
            )
