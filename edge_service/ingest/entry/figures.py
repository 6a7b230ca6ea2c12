"""What an entry of ingest has done and holds, in one process; and the sum over processes."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

SLICES_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper ends of the slices of acknowledgement times. One more slice has what took longer."""


@dataclass(slots=True)
class Figures:
    """Totals since the process started, but for `held`, `under_way` and `open`: those are of now."""

    answers: dict[int, int] = field(default_factory=dict)
    """By status."""
    events: int = 0
    """Acknowledged."""
    bytes: int = 0
    """Of the values of these events."""
    dead: int = 0
    """Bad events that became dead letters."""
    held: int = 0
    """Bytes of bodies."""
    under_way: int = 0
    """Whole requests without an answer yet."""
    open: int = 0
    """Connections to the entry's address. Entries that share an address have the same."""
    slices: list[int] = field(default_factory=lambda: [0] * (len(SLICES_S) + 1))
    """How many requests were acknowledged within each slice of time."""
    acknowledged_s: float = 0.0
    """How long they took altogether."""

    def acknowledged(self, seconds: float) -> None:
        """One request was, so long after it was produced."""
        self.slices[bisect_left(SLICES_S, seconds)] += 1
        self.acknowledged_s += seconds

    def copied(self) -> "Figures":
        return summed([self])

    def to_wire(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> "Figures":
        return cls(**{**wire, "answers": {int(status): count for status, count in wire["answers"].items()}})

    def ended(self) -> "Figures":
        """What stays of them when their process has ended."""
        return Figures(
            answers=self.answers,
            events=self.events,
            bytes=self.bytes,
            dead=self.dead,
            slices=self.slices,
            acknowledged_s=self.acknowledged_s,
        )


def summed(all_figures: Iterable[Figures]) -> Figures:
    total = Figures()
    for figures in all_figures:
        for status, count in figures.answers.items():
            total.answers[status] = total.answers.get(status, 0) + count
        total.slices = [a + b for a, b in zip(total.slices, figures.slices, strict=True)]
        for name in ("events", "bytes", "dead", "held", "under_way", "open", "acknowledged_s"):
            setattr(total, name, getattr(total, name) + getattr(figures, name))
    return total
