"""How long entries live, how many there may be, and how failed reloads back off."""

from dataclasses import dataclass, field

from stores.backoff import Backoff
from stores.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Policy:
    max_entries: int
    refresh_s: float | None = None
    """From this age on, a read starts a reload in the background. None: only `invalidate` and `put` change entries."""
    expire_s: float | None = None
    """From this age on, an entry is not served any more. None: it never expires."""
    absent_expire_s: float | None = None
    """How long it is cached that a key has no value; such entries are not refreshed. None: it is not cached."""
    load_deadline_s: float = 30.0
    """How long a read waits for another thread's load of its key."""
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        if self.max_entries < 1:
            raise ConfigError(f"a cache cannot have {self.max_entries} entries", next_step="allow at least one")
        for name in ("refresh_s", "expire_s", "absent_expire_s", "load_deadline_s"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ConfigError(f"`{name}` is {seconds:g}", next_step="give a time above zero")
        if self.refresh_s is not None and self.expire_s is not None and self.refresh_s >= self.expire_s:
            raise ConfigError(
                f"entries would expire after {self.expire_s:g} s, before their refresh after {self.refresh_s:g} s",
                next_step="refresh earlier than entries expire",
            )
