"""From where on a table must be read again, so that no change is missed: not even one that was committed late.

A transaction may commit long after it gave a row its cursor's value, and rows with greater values have been read by
then. So reading does not go on at the greatest value that was seen (the mark), but at the one that was the greatest
before the oldest transaction began that the last reading could not see, and at least an overlap ago. What is read again
thereby has not changed and is not produced.

A standby does not know when the primary's transactions began, only in which order they wrote first. There a transaction
counts from its first write, and its cursor's values may be as much older as the overlap says.

Rows that have exactly that value were all read: it was the greatest for a while, and later changes have greater ones.
So reading goes on after it, or a table that was loaded in one transaction would be read whole, again and again.
"""

from dataclasses import dataclass
from typing import Any

_MOST_MARKS = 64
# Applications that keep times in whole seconds give a transaction the value that another has just had.
_TICK_MS = 2_000


def trusted_until_ms(horizon_ms: int, read_ms: int, overlap_ms: int) -> int:
    """What a mark of this moment or before says holds for all that the reading at `read_ms` could not see.

    Transactions that hide their start, and clocks that differ, may take the overlap.
    """
    return min(horizon_ms - _TICK_MS, read_ms - overlap_ms)


@dataclass(frozen=True, slots=True)
class Mark:
    """The greatest value of the cursor's column at a moment of the server's clock; None: there was none."""

    at_ms: int
    value: str | None
    next_write: int | None = None
    """On a standby: transactions with this number or a greater one wrote for the first time after the moment."""


@dataclass(frozen=True, slots=True)
class CursorPosition:
    marks: tuple[Mark, ...]
    """In the order of time."""
    horizon_ms: int
    """The start of the oldest transaction that the last reading could not see."""
    is_settled: bool
    """Whether a mark was ever old enough; until then another whole reading makes up for it."""

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
        if len(marks) > _MOST_MARKS:  # a transaction that lasts for hours: fewer marks only mean to read more
            marks = (*marks[: -_MOST_MARKS // 2 : 2], *marks[-_MOST_MARKS // 2 :])
        return CursorPosition(marks, horizon_ms, is_settled=True)

    def _trusted(self, overlap_ms: int) -> Mark | None:
        until = trusted_until_ms(self.horizon_ms, self.marks[-1].at_ms, overlap_ms)
        return next((mark for mark in reversed(self.marks) if mark.at_ms <= until), None)

    def horizon_of(self, mark: Mark, oldest_write: int) -> int:
        """On a standby: a moment before all writes of the transactions that the reading at the mark cannot see.

        The greatest number is taken that none of them is below. 0: no such moment is known.
        """
        marks = (*self.marks, mark)
        return max((m.at_ms for m in marks if m.next_write is not None and m.next_write <= oldest_write), default=0)

    def as_json(self) -> dict[str, Any]:
        marks = [[mark.at_ms, mark.value, mark.next_write] for mark in self.marks]
        return {"marks": marks, "horizon_ms": self.horizon_ms, "is_settled": self.is_settled}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> "CursorPosition":
        marks = tuple(Mark(int(at_ms), value, *more) for at_ms, value, *more in told["marks"])
        return cls(marks, int(told["horizon_ms"]), bool(told["is_settled"]))
