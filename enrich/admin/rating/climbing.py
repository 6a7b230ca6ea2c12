"""Which rate holds: doubled until one breaks the condition, or halved until one does not; then halved in between until
two are close."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

LEAST = 1.0
"""Events a second. Of a pipeline that does not take that many the rating is 0."""
CLOSE = 1.05
"""The rate that breaks is at most so many times the one that holds."""


@dataclass(frozen=True)
class Step:
    rate: float
    """Events a second that were due."""
    taken: float
    """Events a second that were taken where they come in."""
    left: float
    """Events a second that left the last node."""
    p95_ms: float | None
    """End to end, from when each was due. None: nothing left."""
    late_share: float
    """Of the generator's requests: how many it sent too late. The step says nothing if there are many."""
    breaks: str | None
    """Why the rate does not hold."""

    @property
    def is_void(self) -> bool:
        return self.late_share > 0.01


@dataclass(frozen=True)
class Climb:
    steps: Sequence[Step]
    rating: float
    """The highest rate that held."""
    is_bounded: bool
    """A higher one was tried and did not hold. If not, it may be able to take more."""


class Void(Exception):
    """The run says nothing of what the pipeline can take: the generator was late, so it says what this machine can
    send; or by the clocks events leave before they are due."""

    def __init__(self, why: str, next_step: str = "send from a machine of its own, or with more cores") -> None:
        super().__init__(why)
        self.next_step = next_step


def climb(first: float, most: float, attempt: Callable[[float], Step]) -> Climb:
    """Raises Void."""
    steps: list[Step] = []

    def holds(rate: float) -> bool:
        step = attempt(rate)
        steps.append(step)
        # A pipeline that breaks may hold the generator up, too. One that holds has nothing to do with its delays.
        if step.is_void and step.breaks is None:
            raise Void(f"{step.late_share:.0%} of the requests at {rate:,.0f} events/s were sent too late")
        return step.breaks is None

    low, high = 0.0, min(first, most)
    while holds(high):
        low = high
        if low >= most:
            return Climb(steps, low, is_bounded=False)
        high = min(high * 2, most)
    while not low:  # not even the first one
        if high <= LEAST:
            return Climb(steps, 0.0, is_bounded=True)
        lower = max(high / 2, LEAST)
        low, high = (lower, high) if holds(lower) else (low, lower)
    while high / low > CLOSE:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    return Climb(steps, low, is_bounded=True)
