"""How long to wait before a retry."""

from dataclasses import dataclass

from stores.errors import ConfigError

_MOST_DOUBLINGS = 60  # far beyond any ceiling, and keeps the power a small number


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential, minus up to half at random, so that clients that failed together do not retry together."""

    first_s: float = 1.0
    longest_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.longest_s:
            raise ConfigError(f"a back-off from {self.first_s:g} s to {self.longest_s:g} s is not possible")

    def delay_s(self, failures: int, chance: float) -> float:
        """The pause after so many failures in a row. `chance` is a random number in [0, 1)."""
        ceiling = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        return ceiling * (1 - chance / 2)
