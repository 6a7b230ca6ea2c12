"""What a worker reports to the driver about one batch of answers: how many rows of which status, how old the tables
were, and how long it took.

It is a text on the batch's first event and null on all others, and Spark's observation of the events collects it: this
is exact, like everything that is observed, and costs nothing more per event.
"""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from enrich.stage.task.fate import Mask
from stores.table import Found, Status

STATUSES = tuple(status.name.lower() for status in Status)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class BatchReport:
    """The report of one batch in one worker."""

    host: str
    statuses: Sequence[Sequence[int]]
    """For each lookup, the number of events of each of `STATUSES`, without events that could not be parsed."""
    ages_s: Mapping[str, float | None]
    """For each table, how long ago it was known to be complete; None: never."""
    waited_s: float
    """Time spent waiting for tables that were not ready, or not fresh enough."""
    took_s: float
    """Time of the lookups, including the waiting of `on_miss: wait`."""
    memory: int
    """Private bytes of the worker."""

    def column(self, rows: int) -> pa.Array:
        report = pa.array([json.dumps(asdict(self), separators=(",", ":"))][:rows], pa.string())
        return pa.concat_arrays([report, pa.nulls(rows - len(report), pa.string())])

    @classmethod
    def parse(cls, text: str) -> "BatchReport":
        return cls(**json.loads(text))


def statuses_of(found: Sequence[Found], usable: Mask) -> list[list[int]]:
    """See `BatchReport.statuses`."""
    return [
        np.bincount(each.status.to_numpy(zero_copy_only=False)[usable], minlength=len(STATUSES)).tolist()
        for each in found
    ]


def host() -> str:
    return socket.gethostname()


def own_memory() -> int:
    """Private bytes of this process; 0 on a system without /proc."""
    try:
        _, resident, shared, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES
