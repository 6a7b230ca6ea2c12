"""Whoever keeps the same tables in another form beside the database, and is told of every publication in its order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from stores.rocks.state import TableState
from stores.rocks.write.incoming import Incoming
from stores.table import Seq


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a publication changed in a table."""

    state: TableState
    """After it."""
    came: Incoming | None = None
    """The new versions, if there are any."""
    is_replaced: bool = False
    """All rows are others: a bulk load was swapped in."""


class Mirror(Protocol):
    def follow(self, seq: Seq, changes: Mapping[str, TableChange]) -> None:
        """Called once the publication is on disk and before another one can begin. Whatever goes wrong with the mirror
        is the mirror's to mend: an error from here would be taken for one of the database."""
