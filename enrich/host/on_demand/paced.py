"""Runs tasks in a few threads, at most so many a second: a storm of demand waits here, not at its source."""

import heapq
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count

_AT_ONCE_S = 0.1
"""What may be started at once after a pause, as a time's worth of the rate."""
_FULL_S = 0.1
"""How often it looks whether there is room again."""

Task = Callable[[], object]


class Rank(IntEnum):
    """Who waits for a task."""

    NEEDED = 0
    """Somebody: it begins before all others."""
    MISSING = 1
    """Nobody, but there is no answer meanwhile."""
    OLD = 2
    """Nobody: there is an old answer. In turns with what is missing: unknown keys may come without end, and rows
    that are used would expire behind them."""


@dataclass(order=True, slots=True)
class Turn:
    """Of a task that was submitted."""

    due_s: float
    number: int
    task: Task | None = field(compare=False)
    """None: it has begun, or has another turn."""


class Paced:
    """Of one rank, tasks begin in the order in which they are due. They may not raise."""

    def __init__(
        self,
        parallel: int,
        per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_full`: whether there is no room for what tasks bring: none begins meanwhile. It is called with a lock
        held, and must take none."""
        self._is_full = is_full
        self._parallel = parallel
        self._each_s = 1 / per_second
        self._clock = clock
        self._changed = threading.Condition()
        self._turns: dict[Rank, list[Turn]] = {rank: [] for rank in Rank}
        """In the order in which they are looked at."""
        self._numbers = count()
        self._waiting = 0
        self._next_s = self._paused_until_s = 0.0
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._is_closed = False

    @property
    def waiting(self) -> int:
        return self._waiting

    def submit(self, task: Task, delay_s: float = 0.0, rank: Rank = Rank.OLD) -> Turn:
        """Raises RuntimeError once it is closed."""
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the agent is stopping")
            return self._put(task, delay_s, rank)

    def sooner(self, turn: Turn, rank: Rank) -> Turn:
        """If the task has not begun it gets another turn: it is due now."""
        with self._changed:
            if turn.task is None or self._is_closed:
                return turn
            task, turn.task = turn.task, None
            self._waiting -= 1
            return self._put(task, 0.0, rank)

    def pause(self, seconds: float) -> None:
        """None is begun for so long."""
        with self._changed:
            self._paused_until_s = max(self._paused_until_s, self._clock() + seconds)

    def close(self, patience_s: float) -> None:
        """Forgets what has not begun, and waits for what has."""
        with self._changed:
            self._is_closed = True
            self._waiting = 0
            for turns in self._turns.values():
                turns.clear()
            self._changed.notify_all()
        end = self._clock() + patience_s
        for thread in self._threads:
            thread.join(max(0.0, end - self._clock()))

    def _put(self, task: Task, delay_s: float, rank: Rank) -> Turn:
        turn = Turn(self._clock() + delay_s, next(self._numbers), task)
        heapq.heappush(self._turns[rank], turn)
        self._waiting += 1
        if self._waiting > self._idle and len(self._threads) < self._parallel:
            # Not before they are needed: most tables are quiet at most times. One that is idle takes one of many.
            thread = threading.Thread(target=self._run, name="on demand", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._changed.notify()
        return turn

    def _run(self) -> None:
        while (task := self._next()) is not None:
            task()

    def _next(self) -> Task | None:
        with self._changed:
            while not self._is_closed:
                now_s, earliest_s = self._clock(), max(self._next_s, self._paused_until_s)
                if self._is_full():
                    earliest_s = max(earliest_s, now_s + _FULL_S)
                first = self._first(now_s) if earliest_s <= now_s else None
                if first is not None:
                    self._next_s = max(self._next_s, now_s - _AT_ONCE_S) + self._each_s
                    return first
                dues = [turns[0].due_s for turns in self._turns.values() if turns]
                self._idle += 1
                self._changed.wait(max(earliest_s, min(dues)) - now_s if dues else None)
                self._idle -= 1
        return None

    def _first(self, now_s: float) -> Task | None:
        """Of those that are due."""
        for rank, turns in self._turns.items():
            while turns and turns[0].due_s <= now_s:
                turn = heapq.heappop(turns)
                task, turn.task = turn.task, None
                if task is not None:
                    self._waiting -= 1
                    if rank is not Rank.NEEDED:
                        self._turns[rank] = self._turns.pop(rank)  # the last to be looked at the next time
                    return task
        return None
