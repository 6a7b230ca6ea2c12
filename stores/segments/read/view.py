"""Answers batched look-ups on one table at one seq."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from stores.answers import is_expired, require_columns, require_reached
from stores.keys import milliseconds
from stores.protocol import TableSpec
from stores.segments.loops.compiled import Integers, Records
from stores.segments.manifest import TableState
from stores.segments.probes import LastProbes, Probes
from stores.segments.read.answers import found, no_answers
from stores.segments.read.key_filter import KeyFilter
from stores.segments.read.networks import Addresses, choose_longest
from stores.segments.read.table import Question, TableSegments
from stores.table import Found, HistoryFloor, Offsets, Status


@dataclass(frozen=True, slots=True)
class SegmentsTable:
    _spec: TableSpec
    _state: TableState
    _segments: TableSegments
    _require_current: Callable[[], None]
    """Raises once the reader has taken a newer snapshot."""
    _last: LastProbes

    @property
    def columns(self) -> pa.Schema:
        return self._spec.columns

    @property
    def positions(self) -> Offsets:
        return self._state.positions

    @property
    def floors(self) -> Mapping[int, HistoryFloor]:
        return self._state.floors

    @property
    def complete_through(self) -> int | None:
        return self._state.complete_through

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,
    ) -> Found:
        """See `TableView`. Raises CorruptState if a segment is damaged."""
        self._require_current()
        require_columns(self.columns, columns)
        require_reached(self.positions, pin)
        probes = self._last.of(keys)
        times = None if as_of is None else milliseconds(as_of)
        if times is not None:
            probes = probes.only(times.is_valid().to_numpy(zero_copy_only=False))
        answers = no_answers(len(probes))
        answers["status"] = Status.NULL_KEY
        answers["status"][probes.asked] = Status.MISS
        question = Question(None if times is None else times.fill_null(0).to_numpy(), pin)
        if self._segments.networks is None:
            asked = self._above_floors(probes.asked, question, answers)
            self._segments.answer(replace(probes, asked=asked), question, answers)
        else:
            self._answer_addresses(probes, question, self._segments.networks, answers)
        return found(answers, [self.columns.field(name) for name in columns], self._segments.column)

    def _answer_addresses(self, probes: Probes, question: Question, networks: KeyFilter, answers: Records) -> None:
        addresses = Addresses.of(probes)
        is_good = addresses.is_good[probes.asked]
        answers["status"][probes.asked[~is_good]] = Status.BAD_KEY
        asked = self._above_floors(probes.asked[is_good], question, answers)
        around, owners = addresses.candidates(asked, self._segments.prefix_lengths, networks.bits)
        candidates = no_answers(len(owners))
        self._segments.answer(around, question.of(owners), candidates)
        choose_longest(owners, candidates, answers)

    def _above_floors(self, asked: Integers, question: Question, answers: Records) -> Integers:
        """The indexes of the keys whose questions are not below a floor; for one question: `is_expired`."""
        if is_expired(self.floors, None, question.pin):
            is_old = np.ones(len(asked), bool)
        elif question.times is None or not self.floors:
            return asked
        else:
            is_old = question.times[asked] < max(floor.timestamp for floor in self.floors.values())
        answers["status"][asked[is_old]] = Status.EXPIRED
        return asked[~is_old]
