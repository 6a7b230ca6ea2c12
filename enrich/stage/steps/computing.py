"""Evaluates expressions that were compiled for workers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from enrich.stage.compute import Compiled
from enrich.stage.steps.step import Columns, Work
from enrich.stage.task.columns import USABLE
from enrich.stage.task.pin import Pin


@dataclass(frozen=True)
class Compute:
    expressions: Mapping[str, Compiled]
    """By the names of the columns that they make. All are over the columns as they were before."""

    @property
    def needs(self) -> Collection[str]:
        return [USABLE, *fields_of(self.expressions.values())]

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {name: compiled.kind for name, compiled in self.expressions.items()}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        return self._computed

    def _computed(self, columns: Columns) -> Columns:
        count = len(columns[USABLE])
        return {name: compiled.evaluate(columns, count) for name, compiled in self.expressions.items()}


def fields_of(expressions: Collection[Compiled]) -> list[str]:
    """The columns that the expressions name, each once."""
    return list(dict.fromkeys(path[0] for compiled in expressions for path in compiled.fields))
