"""Applies the log to the topic: whole transactions of the database, several in one of Kafka, never one in two."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from enrich.base.errors import ConfigError
from enrich.codecs.encoding import Encoder
from enrich.kafka.writing.dead_letters import HeaderList
from enrich.kafka.writing.transactions import TransactionalProducer
from stores.clock import SystemClock
from stores.external.postgres.log.messages import (
    COMMIT,
    MESSAGE,
    RELATION,
    TRUNCATE,
    ColumnSent,
    Piece,
    Relation,
    Transactions,
    ends_of,
    taken_apart,
    transactions_of,
)
from stores.external.postgres.log.slots import Slots
from stores.external.postgres.log.stream import ReplicationStream, lsn_text
from stores.external.postgres.log.tuples import Changes, changes_of
from stores.external.postgres.reading import PostgresReader
from stores.keys import keys_of
from sync_service.sources.logged.comparing import TableRows
from sync_service.sources.logged.headers import Operation, of_change
from sync_service.sources.logged.place import Place, Places
from sync_service.sources.logged.rows import LoggedRows
from sync_service.sources.reporting import StatusReporter

_log = logging.getLogger("enrich.sync")

_PIECE, _WAIT_S = 1 << 20, 0.2
_BEAT_EVERY_S = 10.0
_REMEMBERED = 4_096
"""Of the newest transactions that were applied, for a snapshot that is taken meanwhile."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tools:
    stream: ReplicationStream
    slots: Slots
    reader: PostgresReader
    producer: TransactionalProducer
    places: Places
    table: TableRows
    table_id: int
    shape: Callable[[], str]
    """The table's columns now."""
    encoder: Encoder
    topic: str
    largest: int
    """Most bytes of a record's key and value that the topic takes."""
    reporter: StatusReporter


@dataclass(frozen=True)
class Stamped:
    """Transactions with the versions and times of their records."""

    transactions: Transactions
    version: Numbers
    time_ms: Numbers

    def after(self, others: "Stamped") -> "Stamped":
        return Stamped(
            self.transactions.after(others.transactions),
            np.concatenate([others.version, self.version]),
            np.concatenate([others.time_ms, self.time_ms]),
        )

    @property
    def last(self) -> "Stamped":
        return Stamped(self.transactions.last, self.version[-1:], self.time_ms[-1:])

    def headers(self, number: int, operation: Operation) -> HeaderList:
        of = self.transactions
        numbers = (of.commit[number], of.xid[number], of.time_us[number], self.version[number])
        return of_change(operation, *map(int, numbers))


class Following:
    """From a place in the log on."""

    def __init__(self, tools: Tools, place: Place) -> None:
        self._tools = tools
        self.place = place
        self.must_compare: str | None = None
        """Why the topic has to be compared with the table again."""
        self.applied: Numbers = np.zeros(0, np.int64)
        self._rows: LoggedRows | None = None
        none = np.zeros(1, np.int64)
        self._under_way = Stamped(Transactions(none, none, none), none, none)
        """A piece may begin in the middle of a transaction."""
        self._rest: list[bytes] = []
        """Read, and behind the last whole transaction."""
        self._beaten_s = 0.0

    def step(self, checkpoint: Callable[[], None]) -> None:
        """Applies what there is, or waits a moment."""
        self._beat()
        messages = self._rest + self._tools.stream.read(_PIECE, _WAIT_S)
        self._rest = []
        if not any(message[:1] == b"w" for message in messages):
            self._tools.reporter.progressed(lag=0)
            return
        with self._tools.producer.transaction():
            while not (end := _end_of_whole(messages)):
                # A transaction that is larger than a piece. What it writes is not visible before it ends.
                self._apply(messages)
                checkpoint()
                messages = self._tools.stream.read(_PIECE, _WAIT_S)
            self._apply(messages[:end])
            self._rest = messages[end:]
            if self.must_compare is not None:
                self.place = replace(self.place, shape="")  # for whoever takes over now, too
            self._tools.places.write(self.place, self._tools.producer)
        self._tools.stream.confirm(self.place.at)
        self._tools.reporter.progressed(lag=0)

    def _beat(self) -> None:
        if time.monotonic() - self._beaten_s > _BEAT_EVERY_S:
            self._beaten_s = time.monotonic()
            self._tools.slots.beat()
            self._describe()
            # The log tells of other columns with the next change only, and there may be none.
            if self._tools.shape() != self.place.shape:
                self.must_compare = "the table's columns have changed"

    def _describe(self) -> None:
        slot, status = self._tools.slots.slot(), self._tools.reporter.status
        gauges = {} if slot is None else {"slot_bytes": float(slot.held_bytes)}
        details = {"warnings": [], **status.details, "slot": self.place.slot, "place": lsn_text(self.place.at)}
        self._tools.reporter.describe({**status.gauges, **gauges}, details)

    def _apply(self, messages: Sequence[bytes]) -> None:
        piece, _ = taken_apart(messages)
        if not len(piece.at):
            return
        transactions, number_of = transactions_of(piece)
        self.place, stamped = _stamped(self.place, transactions)
        stamped, number_of = stamped.after(self._under_way), number_of + 1
        self._under_way = stamped.last
        xids = stamped.transactions.xid[number_of]
        breaks = np.flatnonzero((piece.kind == RELATION) | (piece.kind == TRUNCATE)).tolist()
        start = 0
        for index in [*breaks, len(piece.at)]:
            self._write(piece, start, index, stamped, number_of)
            start = index
            if index == len(piece.at):
                break
            if piece.kind[index] == RELATION:
                self._take_shape(piece.relation(index))
            elif self._tools.table_id in piece.truncated(index) and not self.place.has(xids[index : index + 1])[0]:
                self.must_compare = "the table was truncated"
        ends = ends_of(piece)
        if len(ends):
            self.place = self.place.advanced(int(ends[-1]))
            self.applied = np.concatenate([self.applied, transactions.xid])[-_REMEMBERED:]

    def _take_shape(self, relation: Relation) -> None:
        table = self._tools.table
        if relation.id != self._tools.table_id:
            return
        names = [column.name for column in relation.columns]
        values = table.values(names, self._tools.encoder)
        for name in (*table.key, *values):
            if name not in names:
                raise ConfigError(
                    f"the table has no column {name} any more, or the publication leaves it out",
                    where=f"table {table.name}",
                    next_step=f"its columns in the log: {', '.join(names)}",
                )
        if shape_of(relation.columns) != self.place.shape:
            # An added column may have a default, by which all rows have changed and none is in the log.
            self.must_compare = "the table's columns have changed"
        kinds = self._tools.slots.kinds([column.type_id for column in relation.columns])
        self._rows = LoggedRows(relation, kinds, table.key, values, self._tools.encoder)

    def _write(self, piece: Piece, start: int, end: int, stamped: "Stamped", number_of: Numbers) -> None:
        rows = self._rows
        if rows is None or start == end:
            return
        part = piece.select(slice(start, end))
        changes = changes_of(part, number_of[start:end], rows.relation.id, len(rows.relation.columns))
        if not len(changes.transaction):
            return
        left_out = self.place.has(stamped.transactions.xid[changes.transaction])
        missing = rows.missing(changes) & ~left_out
        records, reasons = rows.records(changes, left_out, missing, self._tools.largest)
        marks = list(zip(records.transaction, records.operation, strict=True))
        headers = {mark: stamped.headers(*mark) for mark in set(marks)}
        chosen = [headers[mark] for mark in marks]
        times = stamped.time_ms[records.transaction].tolist()
        dated = zip(records.keys, records.values, chosen, times, strict=True)
        self._tools.producer.produce_dated(self._tools.topic, dated)
        again = self._read_again(rows, changes, np.flatnonzero(missing), stamped) if missing.any() else 0
        for reason, number in reasons.items():
            _log.warning("%d rows cannot become records: %s", number, reason, extra={"topic": self._tools.topic})
        self._tools.reporter.count(
            rows_read=len(changes.transaction),
            rows_written=len(records.keys) + again,
            rows_deleted=int((changes.is_delete & ~left_out).sum()),
            rows_rejected=sum(reasons.values()),
        )

    def _read_again(self, rows: LoggedRows, changes: Changes, chosen: Numbers, stamped: "Stamped") -> int:
        """Rows of which the log has not all: as they are now. One that is gone is deleted later in the log."""
        last = int(changes.transaction[chosen[-1]])
        table = self._tools.table
        with self._tools.reader.snapshot() as snapshot:
            shape = snapshot.shape(table.name)
            values = table.values([column.name for column in shape.columns], self._tools.encoder)
            wanted = list(dict.fromkeys((*table.key, *values)))
            batch = snapshot.rows_of(shape, wanted, rows.key_texts(changes, chosen))
        if not batch.num_rows:
            return 0
        encoded = self._tools.encoder.encode(batch.select(list(values)))
        keys = keys_of(batch, table.key).to_pylist()
        headers, time_ms = stamped.headers(last, Operation.update), int(stamped.time_ms[last])
        pairs = [
            (key, value, headers, time_ms)
            for key, value in zip(keys, encoded.values.to_pylist(), strict=True)
            if value is not None and len(key) + len(value) <= self._tools.largest
        ]
        self._tools.producer.produce_dated(self._tools.topic, pairs)
        return len(pairs)


def shape_of(columns: Sequence[ColumnSent]) -> str:
    return repr([(column.name, column.type_id, column.type_modifier) for column in columns])


def _stamped(place: Place, transactions: Transactions) -> tuple[Place, Stamped]:
    version, time_ms = place.stamps.given(transactions, SystemClock().now_ms())
    if len(version):
        place = replace(place, version=int(version[-1]), time_ms=int(time_ms[-1]))
    return place, Stamped(transactions, version, time_ms)


def _end_of_whole(messages: Sequence[bytes]) -> int:
    """How many messages there are up to the last that ends a transaction, or stands for itself."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message[:1] == b"w" and (message[25] == COMMIT or (message[25] == MESSAGE and message[26] == 0)):
            return index + 1
    return 0
