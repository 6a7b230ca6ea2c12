"""What a worker reports to the driver of one batch of answers: how many rows of which status, how old the tables were,
and how long it took.

It stands as text on the batch's first event and is null on all others, so that Spark's observation of the events
collects it: exact, like everything that is observed, and without anything else that is done for each event.
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
    """Of one batch in one worker."""

    host: str
    statuses: Sequence[Sequence[int]]
    """For each lookup, how many events there are of each of `STATUSES`; those that could not be parsed do not count."""
    ages_s: Mapping[str, float | None]
    """For each table, how long ago it was known to be complete; None: never."""
    waited_s: float
    """For tables that were not ready, or not fresh enough."""
    took_s: float
    """The lookups, and what `on_miss: wait` waited."""
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
    """Private bytes of this process; 0 on a system that does not tell."""
    try:
        _, resident, shared, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES
