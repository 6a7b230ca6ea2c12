"""Looks up the rows of a batch's keys, and decides what becomes of events without one."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from enrich.stage.steps.step import Columns, Work
from enrich.stage.task.columns import LINEAGES, USABLE
from enrich.stage.task.pin import Pin
from enrich.stage.task.spec import OUTCOME, TaskSpec, lineage_name, object_name, part_name

if TYPE_CHECKING:
    from enrich.stage.worker.answers import Answers


def answers_of_task(spec: TaskSpec, pin: Pin | None) -> "Answers":
    # Imported in the worker only: the driver needs no store.
    from enrich.stage.worker.task import TaskAnswers

    return TaskAnswers(spec, pin)


def answers_of_piece(spec: TaskSpec, pin: Pin | None) -> "Answers":
    """For slots, where one partition's wait must not hold others up."""
    from enrich.stage.worker.task import PieceAnswers

    return PieceAnswers(spec, pin)


@dataclass(frozen=True)
class LookUp:
    """All lookups of a stage. Its objects have the names of the lookups."""

    spec: TaskSpec
    keys: Sequence[Sequence[str]]
    """For each lookup the columns of its key's parts."""
    time: str | None
    """The column of the events' time, if a lookup needs it."""
    answers: Callable[[TaskSpec, Pin | None], "Answers"] = answers_of_task
    """Called in the worker, once for each task."""

    @property
    def needs(self) -> Collection[str]:
        times = [] if self.time is None else [self.time]
        return tuple(dict.fromkeys([USABLE, *(name for parts in self.keys for name in parts), *times]))

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        answer = self.spec.answer_type
        return {own: answer.field(name).type for own, name in self._names().items()}

    def begin(self, pin: Pin | None) -> Work:
        from enrich.stage.worker.answers import Questions

        answers, names = self.answers(self.spec, pin), self._names()

        def look_up(columns: Columns) -> Columns:
            usable = np.asarray(columns[USABLE].to_numpy(zero_copy_only=False), np.bool_)
            keys = [_key([columns[name] for name in parts]) for parts in self.keys]
            times = None if self.time is None else columns[self.time]
            answer = answers.answer(Questions(usable, keys, times))
            return {own: answer.field(name) for own, name in names.items()}

        return look_up

    def _names(self) -> Mapping[str, str]:
        names = {lookup.name: object_name(i) for i, lookup in enumerate(self.spec.lookups)}
        if self.spec.lineage:
            names |= {LINEAGES.of(lookup.name): lineage_name(i) for i, lookup in enumerate(self.spec.lookups)}
        return names | {f"_{name}": name for name in OUTCOME}


def _key(parts: Sequence[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    return pa.StructArray.from_arrays(list(parts), names=[part_name(number) for number in range(len(parts))])
