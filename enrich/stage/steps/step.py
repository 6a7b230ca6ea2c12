"""The interface of a step, and several of them as one."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from enrich.stage.task.pin import Pin

Columns = Mapping[str, pa.Array]
"""A batch of events, by the columns' names."""
Work = Callable[[Columns], Columns]


class Step(Protocol):
    """Adds columns to a batch. It travels pickled."""

    @property
    def needs(self) -> Collection[str]:
        """The columns that it reads."""

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        """The columns that it adds, or replaces."""

    def begin(self, pin: Pin | None) -> Work:
        """Called in a worker, once for each task. With a pin the tables answer as of its offsets."""


@dataclass(frozen=True)
class Operator:
    """Steps that a worker takes together. It travels pickled."""

    steps: Sequence[Step]
    inputs: Sequence[str]
    outputs: Mapping[str, pa.DataType]

    @classmethod
    def of(cls, steps: Sequence[Step], wanted: Collection[str]) -> "Operator":
        """`wanted`: the columns that are needed after it."""
        inputs: list[str] = []
        made: dict[str, pa.DataType] = {}
        for step in steps:
            inputs += [name for name in step.needs if name not in made and name not in inputs]
            made |= step.makes
        return cls(steps, inputs, {name: kind for name, kind in made.items() if name in wanted})

    @property
    def kind(self) -> pa.StructType:
        return pa.struct([pa.field(name, kind) for name, kind in self.outputs.items()])

    def begin(self, pin: Pin | None) -> Work:
        """Takes all steps: adds everything that they make."""
        works = [step.begin(pin) for step in self.steps]

        def take(columns: Columns) -> Columns:
            all_columns = dict(columns)
            for work in works:
                all_columns |= work(all_columns)
            return all_columns

        return take

    def taking(self, columns: Columns) -> "Taking":
        return Taking([step.begin(None) for step in self.steps], columns)

    def run(self, batches: Iterator[tuple[pa.Array, ...]], pin: Pin | None) -> Iterator[pa.Array]:
        take = self.begin(pin)

        def made(columns: Columns) -> Iterator[pa.Array]:
            """In halves, if it is more than a column of Arrow holds, or than there is memory for: an event may become a
            thousand records. Spark puts what comes beside its rows, in batches of whatever length."""
            try:
                taken = take(columns)
                yield pa.StructArray.from_arrays([taken[name] for name in self.outputs], fields=list(self.kind))
            except (pa.ArrowException, MemoryError):
                count = len(columns[self.inputs[0]])
                if count == 1:
                    raise
                yield from made(part_of(columns, 0, count // 2))
                yield from made(part_of(columns, count // 2, count))

        for arrays in batches:
            yield from made(dict(zip(self.inputs, arrays, strict=True)))


class Taking:
    """All steps of one batch. If one raises, the next call goes on with it: what was made before is kept."""

    def __init__(self, works: Sequence[Work], columns: Columns) -> None:
        self._works = works
        self._came = columns
        self._left, self._columns = deque(works), dict(columns)

    def taken(self) -> Columns:
        while self._left:
            self._columns |= self._left[0](self._columns)
            self._left.popleft()
        return self._columns

    def part(self, first: int, last: int) -> "Taking":
        """Of some of the events, from the beginning: what is told of a batch is told of each part. How long the batch
        has waited for rows is not forgotten."""
        return Taking(self._works, part_of(self._came, first, last))


def part_of(columns: Columns, first: int, last: int) -> Columns:
    places = pa.array(range(first, last))
    return {name: column.take(places) for name, column in columns.items()}
