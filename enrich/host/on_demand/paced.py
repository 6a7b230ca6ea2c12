"""Runs tasks in a few threads, at most so many a second: a storm of demand waits here, not at its source."""

import heapq
import threading
import time
from collections.abc import Callable
from itertools import count

_AT_ONCE_S = 0.1
"""What may be started at once after a pause, as a time's worth of the rate."""


class Paced:
    """Tasks begin in the order in which they are due. They may not raise."""

    def __init__(self, parallel: int, per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._parallel = parallel
        self._each_s = 1 / per_second
        self._clock = clock
        self._changed = threading.Condition()
        self._tasks: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._next_s = self._paused_until_s = 0.0
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._is_closed = False

    @property
    def waiting(self) -> int:
        return len(self._tasks)

    def submit(self, task: Callable[[], object], delay_s: float = 0.0) -> None:
        """Raises RuntimeError once it is closed."""
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the agent is stopping")
            heapq.heappush(self._tasks, (self._clock() + delay_s, next(self._numbers), task))
            if len(self._tasks) > self._idle and len(self._threads) < self._parallel:
                # Not before they are needed: most tables are quiet at most times. One that is idle takes one of many.
                thread = threading.Thread(target=self._run, name="on demand", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def pause(self, seconds: float) -> None:
        """None is begun for so long."""
        with self._changed:
            self._paused_until_s = max(self._paused_until_s, self._clock() + seconds)

    def close(self, patience_s: float) -> None:
        """Forgets what has not begun, and waits for what has."""
        with self._changed:
            self._is_closed = True
            self._tasks.clear()
            self._changed.notify_all()
        end = self._clock() + patience_s
        for thread in self._threads:
            thread.join(max(0.0, end - self._clock()))

    def _run(self) -> None:
        while (task := self._next()) is not None:
            task()

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            while not self._is_closed:
                now_s = self._clock()
                if self._tasks:
                    start_s = max(self._tasks[0][0], self._next_s, self._paused_until_s)
                    if start_s <= now_s:
                        self._next_s = max(self._next_s, now_s - _AT_ONCE_S) + self._each_s
                        return heapq.heappop(self._tasks)[2]
                self._idle += 1
                self._changed.wait(start_s - now_s if self._tasks else None)
                self._idle -= 1
        return None
