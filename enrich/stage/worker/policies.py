"""What becomes of each event of a batch, given what its lookups found. Arrow in, Arrow out, no Spark."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import BadRecord
from enrich.config import OnMiss
from enrich.stage.task.fate import Fate, Mask
from enrich.stage.task.lookups import StageLookup
from stores.table import Found, Status

_LONGEST_KEY = 60


_DIVERTS = {OnMiss.drop: Fate.DROP, OnMiss.dlq: Fate.DLQ}


@dataclass(frozen=True)
class Verdict:
    """For each event its objects and its fate; for a diverted one also the deciding lookup and its status."""

    objects: Sequence[pa.StructArray]
    fate: pa.Int8Array
    decided_by: pa.Int8Array
    status: pa.Int8Array


def without_row(found: Found) -> Mask:
    """Events for which the lookup returned no row: the table has none, or may have none if its answer is stale."""
    return np.asarray(found.values.is_null().to_numpy(zero_copy_only=False), np.bool_)


def judge(lookups: Sequence[StageLookup], found: Sequence[Found], keys: Sequence[pa.Array], usable: Mask) -> Verdict:
    """The first lookup that diverts an event decides. Events that could not be parsed are diverted elsewhere. No event
    is diverted because a table is stale: its status says so.

    Raises BadRecord, with table and key, for the first event that has no row with `on_miss: fail`.
    """
    fate = np.zeros(len(usable), np.int8)
    decided_by = np.zeros(len(usable), np.int8)
    status = np.zeros(len(usable), np.int8)
    objects = []
    for index, (lookup, each) in enumerate(zip(lookups, found, strict=True)):
        policy = lookup.last_resort
        missing = without_row(each)
        values = each.values.cast(lookup.row_kind)
        if policy == OnMiss.default and missing.any():
            values = pc.if_else(pa.array(missing), lookup.default_row, values)
        objects.append(values)
        is_old = each.status.to_numpy(zero_copy_only=False) == Status.STALE
        concerned = missing & ~is_old & usable & (fate == Fate.FORWARD)
        if policy == OnMiss.fail and concerned.any():
            first = int(np.argmax(concerned))
            raise _no_row(lookup, each, keys[index], first)
        if policy in _DIVERTS:
            fate[concerned] = _DIVERTS[policy]
            decided_by[concerned] = index
            status[concerned] = each.status.to_numpy(zero_copy_only=False)[concerned]
    return Verdict(objects, pa.array(fate), pa.array(decided_by), pa.array(status))


def _no_row(lookup: StageLookup, found: Found, keys: pa.Array, index: int) -> BadRecord:
    key, status = keys[index].as_py(), Status(found.status[index].as_py()).name.lower()
    shown = str(list(key.values()) if isinstance(key, dict) else key)
    return BadRecord(
        f"an event has no row in the table {lookup.table}: {status}",
        where=f"lookup {lookup.name}, key {shown[:_LONGEST_KEY]}",
        next_step="correct the table, or choose another on_miss than fail",
    )
