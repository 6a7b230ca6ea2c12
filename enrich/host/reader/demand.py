"""Tells the agent which rows of tables on demand are needed. A look-up waits for none of this: a thread tells it.

Each reader tells a key once in a while, however often it is looked up. Not only once: it does not learn that the agent
has given the key up, or that its row had to make room. An agent that knows better drops what it hears: 1 us a key.
"""

import threading
import time
from collections.abc import Callable, Sequence

from enrich.base.errors import EnrichError

Tell = Callable[[str, Sequence[bytes]], None]
"""The keys of a table. Raises an error of our tree if the agent does not answer."""

_GATHERED_S = 0.002
"""Look-ups of one batch are told together."""
_AGAIN_S = 0.5
_MOST_TOLD = 200_000
"""Beyond, keys are told again: that costs a little, and nothing is wrong."""
_MOST_UNTOLD = 200_000
_AT_ONCE = 20_000


class Demands:
    """Of one reader. For one thread, but for the thread that it starts when there is something to tell."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._told: dict[tuple[str, float], tuple[float, set[bytes]]] = {}
        """By table and `again_s`: since when, and which."""
        self._untold: dict[str, dict[bytes, None]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def note(self, table: str, keys: Sequence[bytes], again_s: float) -> None:
        """`again_s`: what was told before that is told again."""
        now_s = self._clock()
        since_s, told = self._told.get((table, again_s), (now_s, set()))
        if now_s - since_s >= again_s or len(told) > _MOST_TOLD:
            since_s, told = now_s, set()
        new = [key for key in keys if key not in told]
        if not new:
            return
        with self._changed:
            untold = self._untold.setdefault(table, {})
            new = new[: _MOST_UNTOLD - len(untold)]
            untold |= dict.fromkeys(new)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="demand", daemon=True)
                self._thread.start()
            self._changed.notify()
        told.update(new)
        self._told[table, again_s] = since_s, told

    def forget(self) -> None:
        """What was told was told to an agent that is gone."""
        self._told.clear()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or any(self._untold.values()))
                if self._is_closed:
                    return
            time.sleep(_GATHERED_S)
            with self._changed:
                table, untold = next((table, keys) for table, keys in self._untold.items() if keys)
                some = list(untold)[:_AT_ONCE]
            try:
                self._tell(table, some)
            except EnrichError:  # another agent starts, or this one is busy
                time.sleep(_AGAIN_S)
                continue
            with self._changed:
                for key in some:
                    untold.pop(key, None)
