"""An update whose records are decoded already.

A decoder may wait for a server, or fail: neither may happen while the store is being written, where all tables wait."""

from dataclasses import dataclass

from stores.protocol import TableSpec, TableUpdate
from stores.rocks.state import TableState
from stores.rocks.write.incoming import Incoming, incoming
from stores.table import Offsets


@dataclass(frozen=True, slots=True)
class Prepared:
    """Stands for its update, as long as the table is where it was."""

    update: TableUpdate
    came: Incoming
    spec: TableSpec
    """What decoded it."""
    positions: Offsets
    """Of the table: what lay below them was left out."""

    @classmethod
    def of(cls, update: TableUpdate, table: TableState, spec: TableSpec, now: int) -> "Prepared":
        """Raises what the decoder raises."""
        came = incoming(table.name, spec, update.versions, table.positions, now)
        return cls(update, came, spec, table.positions)

    def fits(self, table: TableState) -> bool:
        return self.positions == table.positions
