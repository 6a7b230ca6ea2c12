"""Keeps events without a key back from a sink that takes none, since it is compacted: a broker refuses such a record,
and would each time that its batch is repeated. Routes do the same (leaving/routes.py)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.steps.step import Columns, Work
from enrich.stage.task.columns import KEY, OUTPUT, PROBLEM
from enrich.stage.task.pin import Pin

NO_KEY = "a record without a key, and its topic is compacted"


@dataclass(frozen=True)
class RequireKeys:
    """Comes behind `WriteWhole`."""

    needs: Collection[str] = (KEY, OUTPUT)

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {OUTPUT: pa.binary(), PROBLEM: pa.string()}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        return self._required

    @staticmethod
    def _required(columns: Columns) -> Columns:
        keys, written = columns[KEY], columns[OUTPUT]
        none = pa.nulls(len(keys), pa.string())
        if not keys.null_count:
            return {OUTPUT: written, PROBLEM: none}
        return {
            OUTPUT: pc.if_else(keys.is_valid(), written, pa.scalar(None, written.type)),
            PROBLEM: pc.if_else(keys.is_valid(), none, NO_KEY),
        }
