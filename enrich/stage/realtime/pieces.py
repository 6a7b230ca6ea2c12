"""Events on their way through a slot: as they came, as the columns that steps read, and what comes of them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from enrich.kafka.columnar import Came, Records
from enrich.stage.steps.leaving.records import Leaving
from enrich.stage.steps.step import Columns, Taking
from enrich.stage.steps.timing import came_now
from enrich.stage.task.columns import HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, TOPIC, VALUE

_MS = pa.timestamp("ms", tz="UTC")
_US = pa.timestamp("us", tz="UTC")
"""As Spark has it."""
_MOST_MS = (2**63 - 1) // 1_000
"""Anybody may write any time into a record."""


def columns_of(came: Came) -> Columns:
    if len(came.topics) == 1:
        topics = pa.repeat(pa.scalar(came.topics[0]), len(came))
    else:
        topics = pa.array(came.topics, pa.string()).take(pa.array(came.topic))
    return {
        KEY: came.keys,
        VALUE: came.values,
        TOPIC: topics,
        PARTITION: pa.array(came.partition),
        OFFSET: pa.array(came.offset),
        TIMESTAMP: pa.array(np.clip(came.time_ms, -_MOST_MS, _MOST_MS)).cast(_MS).cast(_US),
        HEADERS: came.headers,
        **came_now(len(came)),
    }


@dataclass(frozen=True)
class Done:
    """Events, what all steps have made of them, and the records that leave."""

    came: Came
    columns: Columns
    records: Sequence[Records]
    is_part: bool


@dataclass(frozen=True)
class Piece:
    """Events on their way, and what does the work: it knows since when they wait."""

    came: Came
    taking: Taking
    is_part: bool = False

    def done(self, leaving: Leaving) -> Done | None:
        """None: it has to wait still."""
        from enrich.stage.worker.answers import NotYet

        try:
            columns = self.taking.taken()
        except NotYet:
            return None
        return Done(self.came, columns, leaving.records(columns), self.is_part)

    def halves(self) -> "Sequence[Piece]":
        count = len(self.came)
        spans = (0, count // 2), (count // 2, count)
        return [Piece(self.came.part(*span), self.taking.part(*span), is_part=True) for span in spans]


Pieces = deque[Piece]
"""In their order."""
