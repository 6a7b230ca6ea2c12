"""How long entries live, how many there may be, and how failed reloads back off."""

from dataclasses import dataclass, field

from stores.errors import ConfigError

_MOST_DOUBLINGS = 60  # far beyond any ceiling, and keeps the power a small number


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential, less up to half at random, so that keys that failed together do not retry together."""

    first_s: float = 1.0
    longest_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.longest_s:
            raise ConfigError(f"a back-off from {self.first_s:g} s to {self.longest_s:g} s cannot be")

    def delay_s(self, failures: int, chance: float) -> float:
        """After so many failures in a row. `chance` is in [0, 1)."""
        ceiling = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        return ceiling * (1 - chance / 2)


@dataclass(frozen=True, slots=True)
class Policy:
    max_entries: int
    refresh_s: float | None = None
    """From this age on, a read starts a reload behind the scenes. None: entries change by invalidation and put only."""
    expire_s: float | None = None
    """From this age on, an entry is not served any more. None: never."""
    absent_expire_s: float | None = None
    """How long it is remembered that a key has no value; such entries are not refreshed. None: not remembered."""
    load_deadline_s: float = 30.0
    """How long a read waits for another thread's load of its key."""
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        if self.max_entries < 1:
            raise ConfigError(f"a cache of {self.max_entries} entries cannot be", next_step="allow at least one")
        for name in ("refresh_s", "expire_s", "absent_expire_s", "load_deadline_s"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ConfigError(f"`{name}` is {seconds:g}", next_step="give a time above zero")
        if self.refresh_s is not None and self.expire_s is not None and self.refresh_s >= self.expire_s:
            raise ConfigError(
                f"entries would expire after {self.expire_s:g} s, before their refresh after {self.refresh_s:g} s",
                next_step="refresh earlier than entries expire",
            )
