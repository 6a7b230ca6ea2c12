"""Ends connections whose other side takes nothing of what is written to it: a transport waits for ever."""

import asyncio

LONGEST_STILL_S = 10.0


class Stalling:
    """Looks after what is written on one connection. For one event loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._left = 0
        """Bytes that were not taken yet when it was looked last."""

    def begin(self) -> None:
        """From now on some of it is taken every ten seconds, or the connection is aborted. Nothing is written
        meanwhile."""
        if self._timer is None:
            self._wait()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._left = self._transport.get_write_buffer_size()
        self._timer = self._loop.call_later(LONGEST_STILL_S, self._look)

    def _look(self) -> None:
        if self._transport.get_write_buffer_size() >= self._left:
            self._transport.abort()
        else:
            self._wait()
