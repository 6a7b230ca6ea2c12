"""The lookups of a stage in the form that travels to the workers: keys, tables, columns, and what becomes of an event
without a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from enrich.base.errors import ConfigError
from enrich.config import Classification, Columns, Lookup, Masking, OnMiss, Pipeline
from enrich.config.sections.masks.section import TO_TEXT
from enrich.config.types.values import fit


@dataclass(frozen=True)
class StageLookup:
    """One join of a stage."""

    name: str
    """Name of the object that is added to the event."""
    table: str
    columns: Columns
    keys: tuple[str, ...]
    """Spark SQL expressions over the event's fields."""
    last_resort: OnMiss = OnMiss.null
    """What becomes of an event without a row, after any waiting."""
    waits: bool = False
    """Whether an event waits for its row until the table is complete beyond the event's time."""
    loads: bool = False
    """Whether an event waits until its row is loaded: of a table on demand."""
    default: Mapping[str, Any] | None = None
    as_of: bool = False
    masks: Mapping[str, Masking] = field(default_factory=dict)
    """Of the columns that are not shown as they are. Those that are withheld are not among `columns`."""

    @cached_property
    def row_kind(self) -> pa.StructType:
        """Type of the rows. All fields are nullable, whatever the table's columns are, since a miss is null."""
        return pa.struct([column.with_nullable(True) for column in self.columns.arrow])

    @cached_property
    def kind(self) -> pa.StructType:
        """Type of the object: of a masked row."""
        return pa.struct([self._masked(column) for column in self.row_kind])

    def _masked(self, column: pa.Field) -> pa.Field:
        return column.with_type(pa.string()) if self.masks.get(column.name) in TO_TEXT else column

    @cached_property
    def default_row(self) -> pa.Scalar:
        given = self.default or {}
        row = {column.name: fit(given.get(column.name), column) for column in self.columns.columns}
        return pa.scalar(row, self.row_kind)


def stage_lookups(pipeline: Pipeline, lookups: Sequence[Lookup]) -> tuple[StageLookup, ...]:
    """Raises ConfigError for a table that the pipeline does not have."""
    return tuple(_stage_lookup(pipeline, lookup) for lookup in lookups)


def _stage_lookup(pipeline: Pipeline, lookup: Lookup) -> StageLookup:
    if lookup.table not in pipeline.tables:
        raise ConfigError(
            f"there is no table `{lookup.table}`", next_step=f"choose from {', '.join(sorted(pipeline.tables))}"
        )
    table = pipeline.tables[lookup.table]
    columns = table.columns.select(lookup.select or table.columns.names)
    masks: dict[str, Masking] = {}
    if (classes := Classification.of_pipeline(pipeline)) is not None:
        of_table = classes.of_table(lookup.table, table)
        masks = {name: of_table.of(name).masking for name in columns.names}
        columns = columns.select(name for name in columns.names if masks[name] is not Masking.withhold)
    return StageLookup(
        name=lookup.as_,
        table=lookup.table,
        columns=columns,
        keys=tuple(lookup.key),
        last_resort=lookup.last_resort,
        waits=lookup.on_miss == OnMiss.wait and not table.on_demand,
        loads=lookup.on_miss == OnMiss.wait and table.on_demand,
        default=lookup.default,
        as_of=lookup.as_of,
        masks={name: one for name, one in masks.items() if one not in (Masking.show, Masking.withhold)},
    )
