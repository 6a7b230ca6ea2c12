"""The headers of records that come from a change log: which change of the database each is. Made here only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from enrich.kafka.identity import COMMIT_TIME, LSN, OPERATION, VERSION, XID
from enrich.kafka.writing.dead_letters import HeaderList
from stores.external.postgres.log.messages import Transactions
from stores.external.postgres.log.stream import lsn_text
from stores.versions import LARGEST_VERSION, whole_number

Numbers = npt.NDArray[np.int64]
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


class Operation(StrEnum):
    insert = "insert"
    update = "update"
    delete = "delete"
    snapshot = "snapshot"


@dataclass(frozen=True, slots=True)
class Stamps:
    """The newest version and time that records have. Both only rise, whatever the database's log and clock do: so
    targets keep the newest row, and a look-up as of a time finds it."""

    version: int = 0
    time_ms: int = 0

    def given(self, transactions: Transactions, now_ms: int) -> tuple[Numbers, Numbers]:
        """Version and time of each of these transactions: the place of its commit in the log, and when that was. After
        a comparison both may be a little more."""
        number = np.arange(1, len(transactions.commit) + 1)
        version = np.maximum.accumulate(np.concatenate([[self.version], transactions.commit - number]))[1:] + number
        # A clock that is ahead must not make records that brokers refuse, or that hold back all later ones.
        times = np.minimum(transactions.time_us // 1000, now_ms)
        return version, np.maximum.accumulate(np.concatenate([[self.time_ms], times]))[1:]


@dataclass(frozen=True)
class Stamped:
    """Transactions with the versions and times of their records."""

    transactions: Transactions
    version: Numbers
    time_ms: Numbers

    @classmethod
    def of(cls, transactions: Transactions, stamps: Stamps, now_ms: int) -> "Stamped":
        return cls(transactions, *stamps.given(transactions, now_ms))

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


def newest_version(headers: Iterable[HeaderList]) -> int:
    """Of records with these headers. Other programs may have written some: what no target takes is no version."""
    versions = [whole_number(content) or 0 for each in headers for name, content in each if name == VERSION]
    return max((version for version in versions if version <= LARGEST_VERSION), default=0)


def of_change(operation: Operation, lsn: int, xid: int, time_us: int, version: int) -> HeaderList:
    """Of a transaction's records with this operation."""
    return _headers(operation, lsn, time_us, version, xid)


def of_snapshot(lsn: int, time_ms: int, version: int) -> HeaderList:
    """`lsn`: where the log was when the snapshot was taken, `time_ms`: when that was."""
    return _headers(Operation.snapshot, lsn, time_ms * 1000, version, None)


def _headers(operation: Operation, lsn: int, time_us: int, version: int, xid: int | None) -> HeaderList:
    time = (_BEGIN + timedelta(microseconds=time_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    headers: Sequence[tuple[str, str]] = [
        (OPERATION, operation),
        (LSN, lsn_text(lsn)),
        *([] if xid is None else [(XID, str(xid))]),
        (COMMIT_TIME, time),
        (VERSION, str(version)),
    ]
    return [(name, content.encode()) for name, content in headers]
