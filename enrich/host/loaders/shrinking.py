"""When a source that suddenly has far fewer rows is believed."""

_READS = 3
"""So many reads in a row must say it: time for a flushed cache to be filled again, for a half-written file to grow."""


class ShrinkGuard:
    """Of one table. More than half of its rows may not vanish because one read says so."""

    def __init__(self) -> None:
        self._doubtful = 0

    def doubt(self, served: int, read: int) -> str | None:
        """Why this read is not to be believed yet; None when it is. Called once for each whole read."""
        self._doubtful = self._doubtful + 1 if 2 * read < served else 0
        if self._doubtful in (0, _READS):
            self.believe()
            return None
        what = "no rows" if read == 0 else f"{read:,} rows"
        return (
            f"the source has {what} where {served:,} are served, which stay until {_READS} reads in a row say so "
            f"(this was number {self._doubtful})"
        )

    def believe(self) -> None:
        """A read was as expected."""
        self._doubtful = 0
