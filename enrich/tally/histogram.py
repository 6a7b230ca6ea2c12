"""How often which duration was seen: buckets that become wider with the duration, so that histograms can be added up.

Durations are whole milliseconds. Below 64 each has a bucket of its own; above, 32 buckets of the same width are between
a power of two and the next. So a quantile is off by at most `RELATIVE_ERROR`.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

RELATIVE_ERROR = 1 / 64
"""Of a quantile above 63 ms; below it is exact."""

_EXACT = 64
_PER_OCTAVE = 32
_BITS = 6
MOST_MS = 2**42 - 1
"""139 years. What is above counts as this."""
BUCKETS = _PER_OCTAVE * (42 - _BITS) + _EXACT

Counts = npt.NDArray[np.int64]


def _nothing() -> Counts:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Histogram:
    """Is not changed once it is made; `+` makes another."""

    start: int = 0
    """The bucket of the first count."""
    counts: Counts = field(default_factory=_nothing)
    """Neither the first nor the last is zero."""
    clamped: int = 0
    """How many durations were negative, and count as 0: clocks that differ."""

    @classmethod
    def of(cls, durations_ms: npt.ArrayLike) -> "Histogram":
        values = np.asarray(durations_ms, np.int64)
        clamped = int(np.count_nonzero(values < 0))
        values = np.clip(values, 0, MOST_MS)
        return cls.trimmed(0, np.bincount(_buckets_of(values), minlength=1), clamped)

    @classmethod
    def trimmed(cls, start: int, counts: Counts, clamped: int = 0) -> "Histogram":
        """The same without zeros at its ends."""
        filled = np.flatnonzero(counts)
        if not len(filled):
            return cls(clamped=clamped)
        first, last = int(filled[0]), int(filled[-1])
        return cls(start + first, counts[first : last + 1].astype(np.int64), clamped)

    def longest(self, number: int) -> "Histogram":
        """So many of its longest durations."""
        longer = np.cumsum(self.counts[::-1])[::-1] - self.counts
        return Histogram.trimmed(self.start, np.clip(number - longer, 0, self.counts))

    def times(self, number: int) -> "Histogram":
        """As if each duration had been seen so many times as often."""
        return Histogram(self.start, self.counts * number, self.clamped * number)

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    def __bool__(self) -> bool:
        return len(self.counts) > 0

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Histogram)
            and (self.start, self.clamped) == (other.start, other.clamped)
            and np.array_equal(self.counts, other.counts)
        )

    def __hash__(self) -> int:
        return hash((self.start, self.clamped, self.counts.tobytes()))

    def __add__(self, other: "Histogram") -> "Histogram":
        if not other:
            return Histogram(self.start, self.counts, self.clamped + other.clamped)
        if not self:
            return Histogram(other.start, other.counts, self.clamped + other.clamped)
        start = min(self.start, other.start)
        counts = np.zeros(max(self.start + len(self.counts), other.start + len(other.counts)) - start, np.int64)
        for one in (self, other):
            counts[one.start - start : one.start - start + len(one.counts)] += one.counts
        return Histogram(start, counts, self.clamped + other.clamped)

    def __sub__(self, earlier: "Histogram") -> "Histogram":
        """What was seen after `earlier`, which must be a part of it."""
        counts = np.zeros(len(self.counts), np.int64) + self.counts
        if earlier:
            begin = earlier.start - self.start
            counts[begin : begin + len(earlier.counts)] -= earlier.counts
        return Histogram.trimmed(self.start, counts, self.clamped - earlier.clamped)

    def quantile(self, share: float, *, infinite: int = 0) -> float | None:
        """The duration that this share of all is not above. `infinite`: so many more that never end. None: there are no
        durations, or it falls among those that never end."""
        total = self.count + infinite
        rank = max(1, int(np.ceil(share * total)))
        if rank > self.count:
            return None
        bucket = self.start + int(np.searchsorted(np.cumsum(self.counts), rank))
        low, high = bounds(bucket)
        return (low + high) / 2

    @property
    def sum_ms(self) -> float:
        """Of all durations, each as the middle of its bucket."""
        middles = [sum(bounds(self.start + index)) / 2 for index in range(len(self.counts))]
        return float(np.dot(self.counts, middles))

    def above(self, duration_ms: int) -> int:
        """How many were longer, give or take those in the bucket of this duration, which do not count."""
        bucket = int(_buckets_of(np.asarray([min(max(duration_ms, 0), MOST_MS)], np.int64))[0])
        return int(self.counts[max(0, bucket + 1 - self.start) :].sum())


def bounds(bucket: int) -> tuple[int, int]:
    """The least and the greatest duration of a bucket."""
    if bucket < _EXACT:
        return bucket, bucket
    shift = (bucket - _EXACT) // _PER_OCTAVE + 1
    low = (bucket - _PER_OCTAVE * shift) << shift
    return low, low + (1 << shift) - 1


def _buckets_of(values: Counts) -> Counts:
    # The exponent of a float is the number of bits: exact below 2**53.
    _, bits = np.frexp(values.astype(np.float64))
    shift = np.maximum(bits.astype(np.int64) - _BITS, 0)
    found: Counts = shift * _PER_OCTAVE + (values >> shift)
    return found
