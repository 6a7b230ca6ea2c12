"""The segments of one table at one seq: decides which of them to ask for which key."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stores.segments.loops.columns import ArrowColumn, Column
from stores.segments.loops.compiled import Integers, Records
from stores.segments.loops.past import as_of, pinned
from stores.segments.loops.probe import latest
from stores.segments.probes import Probes
from stores.segments.read.key_filter import KeyFilter
from stores.segments.segment import Segment
from stores.segments.split import settle_split
from stores.table import Offsets


@dataclass(frozen=True, slots=True)
class Question:
    """Which version is asked for: without times and a pin the newest one."""

    times: Integers | None = None
    """One for each key."""
    pin: Offsets | None = None

    def of(self, places: Integers) -> "Question":
        """The same question about the keys at these places."""
        return Question(None if self.times is None else self.times[places], self.pin)


@dataclass(frozen=True, slots=True)
class TableSegments:
    """Segments, the base (the oldest) first, with a filter over the keys of all the others."""

    columns: pa.Schema
    segments: Sequence[Segment]
    in_deltas: KeyFilter
    networks: KeyFilter | None = None
    """For a cidr table: a filter over the networks of all segments."""

    def column(self, segment: int, name: str) -> Column:
        index: int = self.columns.get_field_index(name)
        if not self.segments:
            kind = self.columns.field(index).type
            return ArrowColumn(kind, pa.nulls(0, kind))
        return self.segments[segment].columns[index]

    @property
    def prefix_lengths(self) -> Sequence[int]:
        """The prefix lengths of a cidr table's networks, the longest first."""
        return sorted({length for segment in self.segments for length in segment.prefix_lengths}, reverse=True)

    def answer(self, probes: Probes, question: Question, answers: Records) -> None:
        """Fills in the version of each asked key, if there is one. Raises CorruptState."""
        if question.times is not None:
            self._as_of(probes, question.times, question.pin, answers)
        else:
            self._now(probes, question.pin, answers)

    def _now(self, probes: Probes, pin: Offsets | None, answers: Records) -> None:
        """Asks the newest segment first: the first segment with a version below the pin has the answer."""
        doubts = np.zeros(len(probes), bool)
        visible = None if pin is None else _by_partition(pin)
        in_deltas = self._in_deltas(probes)
        for number in range(len(self.segments) - 1, -1, -1):
            segment = self.segments[number]
            asked = in_deltas if number > 0 else probes.asked
            if number + 1 < len(self.segments):
                asked = asked[answers["segment"][asked] < 0]
            records = (asked, self._places(segment, probes, asked), segment.entries)
            if visible is None:
                is_good = latest(*records, segment.rows, number, answers, doubts)
            else:
                is_good = pinned(*records, segment.version_records, segment.rows, number, visible, answers, doubts)
            if not is_good:
                raise segment.damaged()
        doubtful = np.flatnonzero(doubts)
        if len(doubtful):
            settle_split(self.segments, probes, doubtful, pin, answers)

    def _in_deltas(self, probes: Probes) -> Integers:
        return self.in_deltas.may_have(probes.hashes, probes.asked) if len(self.segments) > 1 else probes.asked[:0]

    def _as_of(self, probes: Probes, times: Integers, pin: Offsets | None, answers: Records) -> None:
        """Asks all segments: even an old one may have the greatest version, if that has a late timestamp."""
        in_deltas = self._in_deltas(probes)
        visible = _by_partition(pin or {})
        for number, segment in enumerate(self.segments):
            asked = in_deltas if number > 0 else probes.asked
            if not as_of(
                asked, self._places(segment, probes, asked), segment.entries, segment.version_records, segment.rows,
                number, times, visible, pin is not None, answers,
            ):  # fmt: skip
                raise segment.damaged()

    def _places(self, segment: Segment, probes: Probes, asked: Integers) -> Integers:
        return segment.find(probes.hashes, probes.data, probes.starts, probes.lengths, asked)


def _by_partition(pin: Offsets) -> Integers:
    visible = np.zeros(max(pin, default=-1) + 1, np.int64)
    for partition, offset in pin.items():
        visible[partition] = offset
    return visible
