"""How a load reads its topic: in batches of columns, and where many records are to come, in a process of its own.

To take messages from Kafka's client needs the interpreter's lock as long as to decode and sort them. In two threads
of one process both took longer than one after the other (docs/adr/0072).
"""

import fcntl
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection as End
from typing import Protocol

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from enrich.base.errors import EnrichError, Retryable
from enrich.base.processes import fork
from enrich.host.claims.watch import PATIENCE_S
from enrich.kafka import Connection, new_store_consumer, read_to_end
from enrich.kafka.records import row_versions_of
from stores.table import ROW_VERSIONS, Offsets

_log = logging.getLogger("enrich.agent.load")

_MOST_BYTES = 4 << 20
"""A batch with large values is sent in pieces of about so many bytes: both processes hold a copy."""

_ROOM = 1 << 20
"""Of the pipe for batches: the most that Linux gives to any user."""

_IS_GONE = (EOFError, BrokenPipeError, ConnectionResetError)


@dataclass(frozen=True)
class Batch:
    """Records of a topic, those of a partition in the order of their offsets."""

    versions: pa.RecordBatch
    positions: Offsets
    """Of each partition in it the offset after its last record."""
    epochs: Offsets
    """The leader epochs of these records, as far as they are known."""

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "Batch":
        versions = row_versions_of(messages)
        positions, epochs = {}, {}
        partitions = versions.column("partition").to_numpy()
        for partition in np.unique(partitions).tolist():
            last = messages[int(np.flatnonzero(partitions == partition)[-1])]
            positions[partition] = (last.offset() or 0) + 1
            if (epoch := last.leader_epoch()) is not None:
                epochs[partition] = epoch
        return cls(versions, positions, epochs)


class Read(Protocol):
    def __call__(self, starts: Offsets, ends: Offsets, epochs: Offsets) -> Iterator[Batch]:
        """See `read_to_end`."""


Reading = Callable[[Connection, str], AbstractContextManager[Read]]
"""How a topic is read: `reading_here` or `reading_beside`."""


@contextmanager
def reading_here(connection: Connection, topic: str) -> Iterator[Read]:
    with closing(new_store_consumer(connection)) as consumer:

        def read(starts: Offsets, ends: Offsets, epochs: Offsets) -> Iterator[Batch]:
            return map(Batch.of, read_to_end(consumer, topic, starts, ends, epochs=epochs, stalled_s=PATIENCE_S))

        yield read


@contextmanager
def reading_beside(connection: Connection, topic: str) -> Iterator[Read]:
    """In a process that ends with the block; in this one if there can be no more. To be called while this process has
    one thread."""
    # Sockets hold less than a batch: while one is decoded, none would be read.
    asked, asking = Pipe(duplex=False)
    coming, sending = Pipe(duplex=False)
    with suppress(OSError):  # it may be more than this user may have
        fcntl.fcntl(sending.fileno(), fcntl.F_SETPIPE_SZ, _ROOM)

    def reader() -> int:
        asking.close()
        coming.close()
        return _serve(asked, sending, connection, topic)

    try:
        process = fork(reader)
    except OSError as error:
        _log.warning("a topic is read without a process of its own", extra={"topic": topic, "reason": str(error)})
        for end in (asked, asking, coming, sending):
            end.close()
        with reading_here(connection, topic) as read:
            yield read
        return
    asked.close()
    sending.close()
    try:
        with asking, coming:
            yield partial(_read_through, asking, coming, topic)
    finally:
        os.kill(process, signal.SIGKILL)  # it has nothing to save, and its client may wait for brokers
        os.waitpid(process, 0)


def _read_through(
    asking: End, coming: End, topic: str, starts: Offsets, ends: Offsets, epochs: Offsets
) -> Iterator[Batch]:
    with suppress(*_IS_GONE):  # the reason is what it has sent last
        asking.send((starts, ends, epochs))
    try:
        while (message := coming.recv()) is not None:
            if isinstance(message, EnrichError):
                raise message
            pieces, *reached = message
            for left in reversed(range(pieces)):
                versions = pa.ipc.read_record_batch(pa.py_buffer(coming.recv_bytes()), ROW_VERSIONS)
                yield Batch(versions, {}, {}) if left else Batch(versions, *reached)
    except _IS_GONE as error:
        raise Retryable(
            "the process that reads its topic ended", where=f"topic {topic}", next_step="see agent.log"
        ) from error


def _serve(asked: End, sending: End, connection: Connection, topic: str) -> int:
    """The reading process's main function. It ends when nobody reads what it sends."""
    try:
        with reading_here(connection, topic) as read:
            while True:
                for batch in read(*asked.recv()):
                    pieces = _pieces(batch.versions)
                    sending.send((len(pieces), batch.positions, batch.epochs))
                    for piece in pieces:
                        sending.send_bytes(piece.serialize())
                sending.send(None)
    except EnrichError as error:
        with suppress(*_IS_GONE):
            sending.send(error)
    except _IS_GONE:
        pass
    except Exception:  # noqa: BLE001 - the process's top: a bug is logged, and the load reports that the reading ended
        _log.exception("this is a bug in enrich; the reading ends", extra={"pid": os.getpid()})
    return 1


def _pieces(versions: pa.RecordBatch) -> list[pa.RecordBatch]:
    rows = max(1, len(versions) * _MOST_BYTES // max(versions.nbytes, 1))
    return [versions.slice(start, rows) for start in range(0, len(versions), rows)]
