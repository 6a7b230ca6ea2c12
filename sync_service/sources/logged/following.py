"""Applies the log to the topics: whole transactions of the database, several in one of Kafka, never one in two."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from enrich.base.errors import BadRecord, ConfigError
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.service.summed import Summed
from stores.clock import SystemClock
from stores.external.postgres.log.messages import (
    COMMIT,
    DELETE,
    INSERT,
    MESSAGE,
    RELATION,
    TRUNCATE,
    UPDATE,
    Piece,
    Relation,
    Transactions,
    ends_of,
    taken_apart,
    transactions_of,
)
from stores.external.postgres.log.slots import Slots
from stores.external.postgres.log.stream import ReplicationStream
from stores.external.postgres.log.tuples import Changes, changes_of
from stores.external.postgres.reading import PostgresReader
from stores.keys import keys_of
from sync_service.sources.logged.followed.rows import LoggedRows
from sync_service.sources.logged.followed.table import Followed, TableError
from sync_service.sources.logged.followed.tables import Tables
from sync_service.sources.logged.headers import Operation, Stamped
from sync_service.sources.logged.keeping import Keeping
from sync_service.sources.logged.place import Place, TableState
from sync_service.sources.logged.seeing import snapshot_seeing
from sync_service.sources.reporting import StatusReporter

_log = logging.getLogger("enrich.sync")

_PIECE, _WAIT_S = 1 << 20, 0.2
_REMEMBERED = 4_096
"""Of the newest transactions that were applied, for a snapshot that is taken meanwhile."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tools:
    stream: ReplicationStream
    slots: Slots
    reader: PostgresReader
    producer: TransactionalProducer
    keeping: Keeping
    reporter: StatusReporter
    longest_s: float
    """How long a transaction of Kafka may take: brokers end it later."""


class Following:
    """From a place in the log on."""

    def __init__(self, tools: Tools, place: Place, tables: Tables) -> None:
        """The tables may change between two steps."""
        self._tools = tools
        self._tables = tables
        self.place = place
        self.applied: Numbers = np.zeros(0, np.int64)
        none = np.zeros(1, np.int64)
        self._under_way = Stamped(Transactions(none, none, none), none, none)
        """A piece may begin in the middle of a transaction."""
        self._rest: list[bytes] = []
        """Read, and behind the last whole transaction."""
        self._relations: dict[int, Relation] = {}
        """All that the log has told: it does so once a connection, and a table may be followed later."""
        self._changed: dict[str, TableState] = {}
        self._written: set[int] = set()
        """The tables of which the open transaction has records."""
        self._since_s = 0.0
        """When it got the first one."""
        self._rejected = Summed[tuple[str, str]]()
        """Rows that cannot become records, by topic and reason."""

    def step(self, checkpoint: Callable[[], None]) -> None:
        """Applies what there is, or waits a moment. Raises TableError if a table cannot go on."""
        messages = self._rest + self._tools.stream.read(_PIECE, _WAIT_S)
        self._rest = []
        _tell(self._rejected.due())
        if not any(message[:1] == b"w" for message in messages):
            self._tools.reporter.progressed(lag=0)
            return
        self._written.clear()
        try:
            with self._tools.producer.transaction():
                while not (end := _end_of_whole(messages)):
                    # A transaction that is larger than a piece. What it writes is not visible before it ends.
                    if self._written and time.monotonic() - self._since_s >= self._tools.longest_s:
                        raise _TooLongError
                    self._apply(messages)
                    checkpoint()
                    messages = self._tools.stream.read(_PIECE, _WAIT_S)
                self._apply(messages[:end])
                self._rest = messages[end:]
                self._tools.keeping.write(self.place, self._changed, self._tools.producer)
        except _TooLongError:
            self._leave_out(messages, checkpoint)
        self._changed = {}
        self._tools.stream.confirm(self.place.at)
        self._tools.reporter.progressed(lag=0)

    def _leave_out(self, messages: list[bytes], checkpoint: Callable[[], None]) -> None:
        """The rest of a transaction that would take longer than one of Kafka may. The tables that it changes are
        compared instead; of others it has nothing."""
        self._unsettle_all(self._written)
        self.note(self.place, self._changed)  # whoever takes over now need not try it again
        while not (end := _first_end(messages)):
            self._pass_over(messages)
            checkpoint()
            messages = self._tools.stream.read(_PIECE, _WAIT_S)
        self._pass_over(messages[:end])
        self._rest = messages[end:]
        self.note(self.place, self._changed)

    def _pass_over(self, messages: Sequence[bytes]) -> None:
        piece, _ = taken_apart(messages)
        if len(piece.at):
            self._unsettle_all(np.unique(_relations_of(piece)).tolist())
        self._apply(messages)

    def _unsettle_all(self, relations: Iterable[int]) -> None:
        for relation in relations:
            table = self._tables.by_id.get(relation)
            if table is not None and table.state.is_followed:
                self._unsettle(table, "a transaction takes too long to be copied whole")

    def close(self) -> None:
        """Tells what was to be told within a minute: who goes on has passed it."""
        _tell(self._rejected.rest())

    def note(self, place: Place, changed: Mapping[str, TableState]) -> None:
        """In a transaction of its own."""
        self.place = place
        with self._tools.producer.transaction():
            self._tools.keeping.write(place, changed, self._tools.producer)

    def take_up(self, table: Followed) -> None:
        """After a comparison: the log may have told the table's shape before."""
        relation = self._relations.get(table.rows.id)
        # If it is of another shape, the log tells the new one before the next change.
        if relation is not None and table.fits(relation):
            self._take(table, relation)

    def _apply(self, messages: Sequence[bytes]) -> None:
        piece, _ = taken_apart(messages)
        if not len(piece.at):
            return
        transactions, number_of = transactions_of(piece)
        stamped = Stamped.of(transactions, self.place.stamps, SystemClock().now_ms())
        if len(stamped.version):
            self.place = replace(self.place, version=int(stamped.version[-1]), time_ms=int(stamped.time_ms[-1]))
        stamped, number_of = stamped.after(self._under_way), number_of + 1
        self._under_way = stamped.last
        relations = _relations_of(piece)
        breaks = np.flatnonzero((piece.kind == RELATION) | (piece.kind == TRUNCATE)).tolist()
        start = 0
        for index in [*breaks, len(piece.at)]:
            for relation in np.unique(relations[start:index]).tolist():
                table = self._tables.by_id.get(relation)
                if table is None:
                    continue
                rows = start + np.flatnonzero(relations[start:index] == relation)
                if table.in_log is not None:
                    self._write_or_raise(table, table.in_log, piece.select(rows), number_of[rows], stamped)
                elif table.lacks(stamped.transactions.xid[number_of[rows]], self.place.at):
                    self._unsettle(table, "the log has rows of another shape than was compared")
            start = index
            if index == len(piece.at):
                break
            if piece.kind[index] == RELATION:
                self._hear(piece.relation(index))
            else:
                self._truncate(piece.truncated(index), stamped.transactions.xid[number_of[index : index + 1]])
        ends = ends_of(piece)
        if len(ends):
            self.place = replace(self.place, at=int(ends[-1]))
            self.applied = np.concatenate([self.applied, transactions.xid])[-_REMEMBERED:]

    def _hear(self, relation: Relation) -> None:
        self._relations[relation.id] = relation
        table = self._tables.by_id.get(relation.id)
        if table is not None:
            self._take(table, relation)

    def _take(self, table: Followed, relation: Relation) -> None:
        if table.rows.full_name not in (None, f"{relation.schema}.{relation.name}"):
            self._unsettle(table, "the table was renamed")
            return
        kinds = self._tools.slots.kinds([column.type_id for column in relation.columns])
        was = table.state
        try:
            table.take(relation, kinds, self.place.at)
        except ConfigError as error:
            raise TableError(table.name, error) from error
        if table.state != was:
            self._changed[table.name] = table.state

    def _truncate(self, tables: Sequence[int], xid: Numbers) -> None:
        for relation in tables:
            table = self._tables.by_id.get(relation)
            if table is not None and table.state.is_followed and not table.state.has(xid, self.place.at)[0]:
                self._unsettle(table, "the table was truncated")

    def _unsettle(self, table: Followed, why: str) -> None:
        table.must_compare(why)
        self._changed[table.name] = table.state  # for whoever takes over now, too

    def _write_or_raise(
        self, table: Followed, rows: LoggedRows, part: Piece, number_of: Numbers, stamped: Stamped
    ) -> None:
        try:
            self._write(table, rows, part, number_of, stamped)
        except (ConfigError, BadRecord) as error:
            raise TableError(table.name, error) from error

    def _write(self, table: Followed, rows: LoggedRows, part: Piece, number_of: Numbers, stamped: Stamped) -> None:
        producer, reporter = self._tools.producer, self._tools.reporter
        changes = changes_of(part, number_of, rows.relation.id, len(rows.relation.columns))
        left_out = table.state.has(stamped.transactions.xid[changes.transaction], self.place.at)
        missing = rows.missing(changes) & ~left_out
        records, reasons = rows.records(changes, left_out, missing, table.largest)
        marks = list(zip(records.transaction, records.operation, strict=True))
        headers = {mark: stamped.headers(*mark) for mark in set(marks)}
        chosen = [headers[mark] for mark in marks]
        times = np.maximum(stamped.time_ms[records.transaction], table.state.time_ms).tolist()
        producer.produce_dated(table.topic, zip(records.keys, records.values, chosen, times, strict=True))
        again = self._read_again(table, rows, changes, np.flatnonzero(missing), stamped) if missing.any() else 0
        if records.keys or again:
            self._since_s = self._since_s if self._written else time.monotonic()
            self._written.add(table.rows.id)
        _tell(self._rejected.add({(table.topic, reason): number for reason, number in reasons.items()}))
        reporter.count(
            rows_read=len(changes.transaction),
            rows_written=len(records.keys) + again,
            rows_deleted=int((changes.is_delete & ~left_out).sum()),
            rows_rejected=sum(reasons.values()),
        )

    def _read_again(
        self, table: Followed, rows: LoggedRows, changes: Changes, chosen: Numbers, stamped: Stamped
    ) -> int:
        """Rows of which the log has not all: as they are now. One that is gone is deleted later in the log."""
        assert table.encoder is not None  # noqa: S101 - it is followed
        last = int(changes.transaction[chosen[-1]])
        xids = stamped.transactions.xid[changes.transaction[chosen]]
        with snapshot_seeing(self._tools.reader, xids, table.rows.name) as (snapshot, _):
            shape = snapshot.shape(table.rows.name)
            sent = {column.name for column in rows.relation.columns}
            there = [column.name for column in shape.columns if column.name in sent]
            values = table.rows.values(there, table.encoder.columns)
            wanted = list(dict.fromkeys((*table.rows.key, *values)))
            batch = snapshot.rows_of(shape, wanted, rows.key_texts(changes, chosen))
        if not batch.num_rows:
            return 0
        encoded = table.encoder.encode(batch.select(list(values)))
        keys = keys_of(batch, table.rows.key).to_pylist()
        headers = stamped.headers(last, Operation.update)
        time_ms = max(int(stamped.time_ms[last]), table.state.time_ms)
        pairs = [
            (key, value, headers, time_ms)
            for key, value in zip(keys, encoded.values.to_pylist(), strict=True)
            if value is not None and len(key) + len(value) <= table.largest
        ]
        self._tools.producer.produce_dated(table.topic, pairs)
        return len(pairs)


def _tell(rejected: Mapping[tuple[str, str], int]) -> None:
    for (topic, reason), number in rejected.items():
        _log.warning("%d rows cannot become records: %s", number, reason, extra={"topic": topic})


class _TooLongError(Exception):
    """Nothing of the transaction that is being copied was committed."""


def _relations_of(piece: Piece) -> Numbers:
    """Of each change its table; 0 for what is no change of a row."""
    rows = np.flatnonzero((piece.kind == INSERT) | (piece.kind == UPDATE) | (piece.kind == DELETE))
    relations = np.zeros(len(piece.at), np.int64)
    relations[rows] = piece.number(piece.at[rows] + 1, 4)
    return relations


def _end_of_whole(messages: Sequence[bytes]) -> int:
    """How many messages there are up to the last that ends a transaction, or stands for itself."""
    return next((index + 1 for index in range(len(messages) - 1, -1, -1) if _is_end(messages[index])), 0)


def _first_end(messages: Sequence[bytes]) -> int:
    """The same up to the first one."""
    return next((index + 1 for index, message in enumerate(messages) if _is_end(message)), 0)


def _is_end(message: bytes) -> bool:
    return message[:1] == b"w" and (message[25] == COMMIT or (message[25] == MESSAGE and message[26] == 0))
