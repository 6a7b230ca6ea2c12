"""What became of each event, read from its columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sql

from enrich.stage.task.lookups import StageLookup
from enrich.stage.task.spec import DECIDED_BY, FATE, REPORT, STATUS
from stores.table import Status


@dataclass(frozen=True)
class Outcome:
    """The outcome columns of events that were joined by these lookups, one or more."""

    lookups: Sequence[StageLookup]
    part: Callable[[str], Column]

    @classmethod
    def in_columns(cls, lookups: Sequence[StageLookup]) -> "Outcome":
        """For an answer whose parts are columns, as `LookUp` names them."""
        return cls(lookups, lambda name: sql.col(f"_{name}"))

    def fate(self) -> Column:
        """A number of `Fate`."""
        return self.part(FATE)

    def report(self) -> Column:
        """What workers report of their batches, on one event of each; see `BatchReport`."""
        return self.part(REPORT)

    def deciding(self) -> tuple[Column, Column, Column]:
        """Name, table and status of the lookup that decided, if one did."""
        statuses = sql.array(*(sql.lit(status.name.lower()) for status in Status))
        names = sql.array(*(sql.lit(lookup.name) for lookup in self.lookups))
        tables = sql.array(*(sql.lit(lookup.table) for lookup in self.lookups))
        decided_by, status = self.part(DECIDED_BY), self.part(STATUS)
        return sql.get(names, decided_by), sql.get(tables, decided_by), sql.get(statuses, status)
