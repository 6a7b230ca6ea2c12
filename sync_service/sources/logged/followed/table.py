"""One table that is followed, or is to be: what it is called, how its rows are encoded, and how it stands."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from enrich.base.errors import ConfigError, EnrichError
from enrich.codecs.encoding import Encoder
from stores.external.postgres.log.literals import Kind
from stores.external.postgres.log.messages import ColumnSent, Relation
from stores.external.postgres.log.slots import Storage
from sync_service.sources.logged.followed.rows import LoggedRows
from sync_service.sources.logged.place import TableState


@dataclass(frozen=True)
class TableRows:
    """What of a table becomes records."""

    id: int
    """In the database."""
    name: str
    """As SQL needs it."""
    key: tuple[str, ...]
    columns: tuple[str, ...] | None
    """Those of the value; None: all that the log has."""
    generated: frozenset[str]
    full_name: str | None = None
    """As the log has it, with its schema. None: it is told by its id alone."""

    def values(self, there: Sequence[str], needed: Sequence[str] | None) -> tuple[str, ...]:
        """Of the columns that are there. `needed`: those that the encoder takes; None: all."""
        if self.columns is not None:
            return self.columns
        return tuple(n for n in there if n not in self.generated and (needed is None or n in needed))

    def encoding(self, encoder: Encoder) -> str:
        """Another one if they become other records, by the configuration or a schema."""
        return hashlib.sha256(f"{encoder.identity} {self.columns}".encode()).hexdigest()[:16]


class TableError(Exception):
    """Something of one table: nothing of what was being written may be committed."""

    def __init__(self, name: str, error: EnrichError) -> None:
        super().__init__(str(error))
        self.name = name
        self.error = error


class Followed:
    """For one thread."""

    def __init__(self, name: str, topic: str, rows: TableRows, state: TableState) -> None:
        self.name = name
        self.topic = topic
        self.rows = rows
        self.state = state
        self.encoder: Encoder | None = None
        self.largest = 0
        """Most bytes of a record's key and value that the topic takes."""
        self.why = None if state.is_followed else "there is no place in the log to go on from"
        """Why it has to be compared, if it has to."""
        self.in_log: LoggedRows | None = None
        """Its rows as the log sends them since the connection began."""

    def must_compare(self, why: str) -> None:
        """What comes in the log is left out until then: the comparison has it."""
        self.why = self.why or why
        self.state = self.state.unsettled()
        self.in_log = None

    def look(self, shape: str, storage: Storage) -> None:
        """What the catalog says now: the log tells of other columns with the next change only, and of some changes of
        all rows never."""
        state = self.state
        if not state.is_followed:
            return
        if state.shape != shape:
            self.must_compare("the table's columns have changed")
        elif not state.storage:
            self.state = replace(state, storage=storage)
        elif tuple(state.storage) != storage:
            self.must_compare("the table was rewritten, or its partitions are others")

    def compared(self, state: TableState, encoder: Encoder, largest: int) -> None:
        """It can be followed."""
        self.state, self.encoder, self.largest = state, encoder, largest
        self.why = self.in_log = None

    def fits(self, relation: Relation) -> bool:
        """Whether the log sends rows as they were compared, and with their keys."""
        return shape_of(relation.columns) == self.state.shape and relation.identity.issuperset(self.rows.key)

    def lacks(self, xids: npt.NDArray[np.int64], at: int) -> bool:
        """Whether these transactions of the log, from `at` on, have something for its topic that cannot be taken."""
        is_at_work = self.state.is_followed and self.encoder is not None
        return is_at_work and self.in_log is None and not self.state.has(xids, at).all()

    def take(self, relation: Relation, kinds: Mapping[int, Kind], at: int) -> None:
        """From here on, `at`, the log sends rows of this shape. Raises ConfigError if it lacks a column."""
        if not self.state.is_followed or self.encoder is None:
            return
        self.in_log = None
        if not self.fits(relation):
            # While the log is before the comparison it may send rows of an older shape, all of which were compared.
            if not self.state.has_more_than(at):
                # An added column may have a default, by which all rows have changed and none is in the log. And of a
                # row without its key nobody knows which one was deleted.
                self.must_compare("the table's columns, or those of its identity, have changed")
            return
        names = [column.name for column in relation.columns]
        values = self.rows.values(names, self.encoder.columns)
        for name in (*self.rows.key, *values):
            if name not in names:
                raise ConfigError(
                    f"the table has no column {name} any more, or the publication leaves it out",
                    where=f"table {self.rows.name}",
                    next_step=f"its columns in the log: {', '.join(names)}",
                )
        self.in_log = LoggedRows(relation, kinds, self.rows.key, values, self.encoder)


def shape_of(columns: Sequence[ColumnSent]) -> str:
    return repr([(column.name, column.type_id, column.type_modifier) for column in columns])
