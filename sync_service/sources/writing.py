"""Writes differences as records, some 50,000 per transaction. After each, the known rows are updated."""

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from enrich.kafka.writing.dead_letters import HeaderList
from enrich.kafka.writing.transactions import Span, TransactionalProducer
from sync_service.sources.known.rows import DIGEST, KnownRows

_ROWS, _BYTES = 50_000, 32 << 20


class Writer:
    """Writes to one topic. `known` is never ahead of the topic, even if the process is killed."""

    def __init__(self, producer: TransactionalProducer, topic: str, known: KnownRows, headers: HeaderList = ()) -> None:
        """`headers`: of all records."""
        self._producer = producer
        self._topic = topic
        self._known = known
        self._headers = headers

    def write(self, differences: Iterable[pa.RecordBatch], checkpoint: Callable[[int], None]) -> int:
        """Returns how many records it wrote. Calls `checkpoint` after each transaction; it may raise."""
        written = 0
        for batch in _gathered(differences):
            self._transaction(batch)
            written += batch.num_rows
            checkpoint(batch.num_rows)
        return written

    def _transaction(self, batch: pa.RecordBatch) -> None:
        keys, values = batch.column(0).to_pylist(), batch.column(1).to_pylist()
        with self._producer.transaction() as spans:
            self._producer.produce(self._topic, keys, values, self._headers)
        digests = np.frombuffer(batch.column(2).buffers()[1], f"V{DIGEST}")[batch.column(2).offset :][: len(keys)]
        deleted = batch.column(1).is_null().to_numpy(zero_copy_only=False)
        self._known.apply(keys, batch.column(3).to_numpy(), digests, deleted, self._advanced(spans))

    def _advanced(self, spans: dict[int, Span]) -> dict[int, int]:
        """Positions after our records. Not moved past records of other writers: these are read later."""
        positions = dict(self._known.positions)
        for partition, span in spans.items():
            between = span.first - positions.get(partition, 0)
            # A single offset between is the marker of our previous commit, which is written by now.
            if span.is_alone and (between == 0 or (between == 1 and partition in self._known.markers)):
                positions[partition] = span.last + 1
                self._known.markers.add(partition)
            else:
                self._known.markers.discard(partition)
        return positions


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Regroups the rows into batches of bounded size, one per transaction."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for whole in batches:
        if whole.num_rows == 0:
            continue
        pieces = max(1, whole.num_rows // _ROWS, whole.nbytes // _BYTES)
        length = -(-whole.num_rows // pieces)
        for start in range(0, whole.num_rows, length):
            piece = whole.slice(start, length)
            waiting.append(piece)
            rows += piece.num_rows
            size += piece.nbytes
            if rows >= _ROWS or size >= _BYTES:
                yield _joined(waiting)
                waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches)
