"""The cursor value from which a table must be read again, so that no change is missed, even one committed late.

A transaction may commit long after it gave a row its cursor value, when rows with greater values have been read
already. So the next reading does not begin at the greatest value that was seen (the mark), but at an earlier mark: one
from before the start of the oldest transaction that the last reading could not see, and at least one overlap ago. Rows
that are read again because of this have not changed and are not produced.

A standby does not know when the primary's transactions began, only the order of their first writes. There a
transaction counts from its first write, and its cursor values may be older than that by up to the overlap.

All rows with exactly the mark's value were read: it was the greatest for a while, and later changes have greater
ones. So reading begins after it; otherwise a table that was loaded in one transaction would be read whole each time.
"""

from dataclasses import dataclass
from typing import Any

_MOST_MARKS = 64
# Applications with times in whole seconds may give two transactions, one after the other, the same value.
_TICK_MS = 2_000


def trusted_until_ms(horizon_ms: int, read_ms: int, overlap_ms: int) -> int:
    """A mark of this moment or earlier is safe: all that the reading at `read_ms` could not see has greater values.

    The overlap covers transactions whose start is hidden and clocks that differ.
    """
    return min(horizon_ms - _TICK_MS, read_ms - overlap_ms)


@dataclass(frozen=True, slots=True)
class Mark:
    """The greatest value of the cursor column at a moment of the server's clock; None: no value."""

    at_ms: int
    value: str | None
    next_write: int | None = None
    """On a standby: transactions with this id or a greater one first wrote after the moment."""


@dataclass(frozen=True, slots=True)
class CursorPosition:
    marks: tuple[Mark, ...]
    """In order of time."""
    horizon_ms: int
    """The start of the oldest transaction that the last reading could not see."""
    is_settled: bool
    """Whether a mark was ever old enough. Until then the table is read whole again."""

    def bound(self, overlap_ms: int) -> Mark:
        """Every row that changed since the last reading has a greater value than this."""
        return self._trusted(overlap_ms) or self.marks[0]

    def advanced(self, mark: Mark, horizon_ms: int, overlap_ms: int) -> "CursorPosition":
        """After a reading at the mark's moment."""
        after = CursorPosition((*self.marks, mark), horizon_ms, self.is_settled)
        trusted = after._trusted(overlap_ms)
        if trusted is None:
            return after
        marks = tuple(each for each in after.marks if each.at_ms >= trusted.at_ms)
        if len(marks) > _MOST_MARKS:  # a transaction lasts for hours: with fewer marks only more is read again
            marks = (*marks[: -_MOST_MARKS // 2 : 2], *marks[-_MOST_MARKS // 2 :])
        return CursorPosition(marks, horizon_ms, is_settled=True)

    def _trusted(self, overlap_ms: int) -> Mark | None:
        until = trusted_until_ms(self.horizon_ms, self.marks[-1].at_ms, overlap_ms)
        return next((mark for mark in reversed(self.marks) if mark.at_ms <= until), None)

    def horizon_of(self, mark: Mark, oldest_write: int) -> int:
        """On a standby: a moment before the first write of any transaction that the reading at the mark cannot see.

        It is the latest mark whose `next_write` is not above `oldest_write`. 0: no such mark is known.
        """
        marks = (*self.marks, mark)
        return max((m.at_ms for m in marks if m.next_write is not None and m.next_write <= oldest_write), default=0)

    def as_json(self) -> dict[str, Any]:
        marks = [[mark.at_ms, mark.value, mark.next_write] for mark in self.marks]
        return {"marks": marks, "horizon_ms": self.horizon_ms, "is_settled": self.is_settled}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "CursorPosition":
        marks = tuple(Mark(int(at_ms), value, *more) for at_ms, value, *more in content["marks"])
        return cls(marks, int(content["horizon_ms"]), bool(content["is_settled"]))
