"""Decides when to believe a source that suddenly has far fewer rows."""

_READS = 3
"""So many reads in a row must agree: that gives time to refill a flushed cache, or to finish a half-written file."""


class ShrinkGuard:
    """The guard of one table: a single read must not make more than half of its rows vanish."""

    def __init__(self) -> None:
        self._doubtful = 0

    def doubt(self, served: int, read: int) -> str | None:
        """Why this read is not believed yet; None if it is. Called once for each whole read."""
        self._doubtful = self._doubtful + 1 if 2 * read < served else 0
        if self._doubtful in (0, _READS):
            self.believe()
            return None
        what = "no rows" if read == 0 else f"{read:,} rows"
        return (
            f"the source has {what} where {served:,} are served; these stay until {_READS} reads in a row say so "
            f"(this was number {self._doubtful})"
        )

    def believe(self) -> None:
        """Starts the count again: a read was as expected."""
        self._doubtful = 0
