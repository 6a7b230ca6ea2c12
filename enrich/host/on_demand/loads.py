"""What is wanted of an on-demand table, and what came of its source. Any thread may ask.

The refresh-after-write cache decides: one load a key at a time, a reload behind the old row, a pause after a reload
that failed, the least used go first. It keeps no rows, only that there is one: rows are in the store.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa

from enrich.base.backoff import Backoff as Pauses
from enrich.base.errors import BadRecord, Unreachable
from enrich.endpoints.pages import LeftAlone
from enrich.host.on_demand.paced import Paced, Rank, Turn
from enrich.host.trouble import reason_of
from stores.backoff import Backoff
from stores.cache import ABSENT, Absent, Policy, RefreshAfterWriteCache
from stores.protocol import Decoder

There = Literal[True]

_LONGEST_PAUSE_S = 300.0
_TRIES = 8
"""Of a key that nobody waits for: about a minute. Who needs it says so again."""
_MOST_AHEAD = 10_000
"""So many answers may come before the agent takes them: on a full disk it takes none, for hours."""


class KeySource(Protocol):
    def row(self, key: bytes) -> bytes | None:
        """The row's value; None if there is none. Raises errors of our tree."""

    def close(self) -> None:
        """Once nobody asks any more."""


@dataclass(frozen=True)
class Plan:
    refresh_s: float
    expire_s: float
    max_entries: int
    per_second: int
    parallel: int

    @property
    def policy(self) -> Policy:
        longest_s = min(60.0, self.refresh_s)
        return Policy(
            self.max_entries,
            self.refresh_s,
            self.expire_s,
            # That there is none is kept for as long as a row is new.
            absent_expire_s=self.refresh_s,
            backoff=Backoff(min(1.0, longest_s), longest_s),
        )


@dataclass
class Counts:
    loads: int = 0
    failures: int = 0
    given_up: int = 0
    """Keys whose demand was dropped: too many waited, or they could not be loaded for long."""
    bad: Counter[str] = field(default_factory=Counter)
    """Answers that are no rows of the table, by reason."""


class Landed(NamedTuple):
    """What came of a key and is not published yet."""

    value: bytes | None
    """None: there is no row, or it has to go."""
    at_s: float
    """When it came, by the clock of the cache: the store may take it much later, as on a full disk."""


@dataclass
class _Asked:
    """A key that is loaded because it is not there."""

    tries: int = 0
    """How often that has failed."""
    turn: Turn | None = None


class Loads:
    def __init__(self, source: KeySource, decoder: Decoder, plan: Plan, clock_s: Callable[[], float]) -> None:
        self._source = source
        self._decoder = decoder
        self._most = plan.max_entries
        self._clock_s = clock_s
        self._patience = plan.parallel
        """So many failures in a row are no fault of single keys."""
        self._paced = Paced(plan.parallel, plan.per_second, is_full=lambda: self._ahead >= _MOST_AHEAD)
        self.cache: RefreshAfterWriteCache[bytes, There] = RefreshAfterWriteCache(
            self, plan.policy, self._paced, clock=clock_s
        )
        self.changed = threading.Condition()
        """With its lock everything below is read and changed."""
        self.landed: dict[bytes, Landed] = {}
        """What came and is not published yet."""
        self._ahead = 0
        """Answers that came since the agent took some."""
        self.counts = Counts()
        self.trouble: str | None = None
        self._asked: dict[bytes, _Asked] = {}
        self._landing: set[bytes] = set()
        """Those of them that came, and that the cache does not have yet."""
        self._needed: Counter[bytes] = Counter()
        """Those that somebody waits for: they are loaded first, and not given up."""
        self._failures = 0
        self._pauses = Pauses(0.5, 30.0)
        self._retries = Backoff(0.5, 30.0)
        self._is_closed = False

    @property
    def waiting(self) -> int:
        return len(self._asked)

    def want(self, keys: Sequence[bytes], *, is_needed: bool = False) -> None:
        """Those that are not there are loaded, those that are old are loaded again. `is_needed`: however many wait."""
        for key in keys:
            if self.cache.get_if_present(key, None) is not None:
                continue
            with self.changed:
                if key in self._asked:
                    continue
                if len(self._asked) >= self._most and not is_needed:
                    self.counts.given_up += 1
                    continue
                self._asked[key] = _Asked()
                self._submit(key)

    def need(self, keys: Sequence[bytes]) -> None:
        """Until `need_not` they are tried for as long as it takes, before all others."""
        with self.changed:
            for key in keys:
                asked = self._asked.get(key)
                if asked is not None and asked.turn is not None and key not in self._needed:
                    asked.turn = self._paced.sooner(asked.turn, Rank.NEEDED)
                self._needed[key] += 1
        self.want(keys, is_needed=True)

    def need_not(self, keys: Sequence[bytes]) -> None:
        with self.changed:
            self._needed.subtract(keys)
            for key in keys:
                if self._needed[key] <= 0:
                    del self._needed[key]

    def taken(self) -> None:
        """The agent takes what has landed, as fast as it can write it."""
        self._ahead = 0

    def is_asked(self, key: bytes) -> bool:
        return key in self._asked

    def has(self, key: bytes) -> bool:
        """Whether a row that is in the store is to stay there. Needs the lock."""
        return key in self.cache or key in self._landing

    def has_to_go(self, key: bytes) -> None:
        """From the store, unless a row has come meanwhile. Needs the lock."""
        self.landed.setdefault(key, Landed(None, self._clock_s()))

    def load(self, key: bytes, /) -> There | Absent:
        """See `stores.cache.Loader`."""
        try:
            value = self._source.row(key)
            if value is not None:
                self._require_row(value)
        except BadRecord as error:
            with self.changed:
                self.counts.bad[error.what] += 1
            raise
        except Exception as error:
            self._met(error)
            raise
        with self.changed:
            self.counts.loads += 1
            self._failures, self.trouble = 0, None
            self._pauses.reset()
            self._ahead += 1
            self.landed[key] = Landed(value, self._clock_s())
            if key in self._asked:
                self._landing.add(key)
        return ABSENT if value is None else True

    def close(self, patience_s: float) -> None:
        self._is_closed = True
        self._paced.close(patience_s)
        self._source.close()

    def _submit(self, key: bytes, delay_s: float = 0.0) -> None:
        """Needs the lock."""
        if not self._is_closed:
            rank = Rank.NEEDED if key in self._needed else Rank.MISSING
            self._asked[key].turn = self._paced.submit(partial(self._load, key), delay_s, rank)

    def _load(self, key: bytes) -> None:
        """In a thread of ours."""
        try:
            self.cache.get(key)
        except BadRecord:
            # Asked for again like what is not there. If the store has an old row yet, that has expired.
            self.cache.put_absent(key)
            with self.changed:
                self._ahead += 1
                self.has_to_go(key)
        except Exception:  # noqa: BLE001 - it was met in `load`, and it is tried again
            with self.changed:
                asked = self._asked[key]
                asked.tries += 1
                if asked.tries < _TRIES or key in self._needed:
                    self._submit(key, self._retries.delay_s(asked.tries, random.random()))  # noqa: S311 - only spreads
                else:
                    self.counts.given_up += 1
                    self._end(key)
            return
        with self.changed:
            self._end(key)

    def _end(self, key: bytes) -> None:
        """Needs the lock."""
        del self._asked[key]
        self._landing.discard(key)
        self.changed.notify_all()

    def _require_row(self, value: bytes) -> None:
        for reason in self._decoder.decode(pa.array([value], pa.binary())).bad.values():
            raise BadRecord(reason)

    def _met(self, error: Exception) -> None:
        with self.changed:
            self.counts.failures += 1
            self._failures += 1
            self.trouble = reason_of(error)
            if isinstance(error, LeftAlone) and error.wait_s:
                self._paced.pause(min(error.wait_s, _LONGEST_PAUSE_S))
            elif self._failures % self._patience == 0 or (self._failures == 1 and isinstance(error, Unreachable)):
                self._paced.pause(self._pauses.next_s())


def figures(loads: Loads) -> Mapping[str, float]:
    """For the header."""
    counts = loads.counts
    return {
        "keys_waiting": loads.waiting,
        "key_loads": counts.loads,
        "key_load_failures": counts.failures,
        "keys_given_up": counts.given_up,
    }
