"""Records that came, as the columns that a stage's steps read."""

import numpy as np
import pyarrow as pa

from enrich.kafka.columnar import Came
from enrich.stage.steps.step import Columns
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
