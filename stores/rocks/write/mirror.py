"""The interface of a mirror, which keeps the same tables in another form and gets every publication in order."""

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
    """The state after it."""
    came: Incoming | None = None
    """The new versions, if there are any."""
    is_replaced: bool = False
    """Whether all rows were replaced: a bulk load was swapped in."""


class Mirror(Protocol):
    def follow(self, seq: Seq, changes: Mapping[str, TableChange]) -> None:
        """Called once the publication is on disk and before another one can begin. A mirror must handle its own errors:
        an exception from here would be taken for an error of the database."""
