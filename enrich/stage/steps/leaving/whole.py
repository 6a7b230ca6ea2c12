"""Writes whole events: as they came, with the values that were normalized and the objects of their lookups."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.steps.step import Columns, Work
from enrich.stage.task.columns import BESIDE, FATE, LINEAGES, OUTPUT, USABLE, VALUE
from enrich.stage.task.fate import Fate, Mask
from enrich.stage.task.pin import Pin
from enrich.stage.task.spec import LINEAGE


@dataclass(frozen=True)
class WriteWhole:
    lookups: Sequence[str]
    has_lineage: bool
    normalized: Sequence[str]
    fields: Sequence[str] | None
    """All fields, which become a JSON object; None for JSON events, whose bytes stay as they are."""
    most_bytes: int | None
    """The largest record of the output; None: whoever takes the event on looks at that."""

    @property
    def needs(self) -> Collection[str]:
        fates = [FATE] if self.lookups else []
        lineages = [LINEAGES.of(name) for name in self.lookups] if self.has_lineage else []
        content = [VALUE, *self.normalized] if self.fields is None else self.fields
        beside = [] if self.most_bytes is None else [BESIDE]
        return [USABLE, *fates, *content, *self.lookups, *lineages, *beside]

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {OUTPUT: pa.binary()}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        return lambda columns: {OUTPUT: self._fitting(self._written(columns), columns)}

    def _fitting(self, written: pa.BinaryArray, columns: Columns) -> pa.BinaryArray:
        if self.most_bytes is None:
            return written
        fits = pc.less_equal(pc.add(pc.binary_length(written), columns[BESIDE]), self.most_bytes)
        return written if pc.all(fits).as_py() else pc.if_else(fits, written, pa.scalar(None, written.type))

    def _written(self, columns: Columns) -> pa.BinaryArray:
        # Imported in the worker only: the driver writes no JSON.
        from enrich.stage.events.replacing import replaced
        from enrich.stage.events.splicing import spliced
        from enrich.stage.events.text import json_text, members_text, object_of

        wanted = forwarded(columns)
        members = {name: json_text(columns[name]) for name in self.lookups}
        if self.has_lineage and self.lookups:
            members[LINEAGE] = object_of({name: json_text(columns[LINEAGES.of(name)]) for name in self.lookups})
        if self.fields is not None:
            written = object_of({name: json_text(columns[name]) for name in self.fields} | members)
            return pc.if_else(pa.array(wanted), written, pa.scalar(None, written.type))
        events = columns[VALUE]
        if self.normalized:
            events = replaced(events, wanted, {name: json_text(columns[name]) for name in self.normalized})
        if members:
            return spliced(events, wanted, members_text(members))
        return pc.if_else(pa.array(wanted), events, pa.scalar(None, events.type))


def forwarded(columns: Columns) -> Mask:
    """The events that are usable, and that no lookup has diverted."""
    usable = np.asarray(columns[USABLE].to_numpy(zero_copy_only=False), np.bool_)
    return usable & (columns[FATE].to_numpy() == Fate.FORWARD) if FATE in columns else usable
