"""An update whose records are decoded already.

A decoder may wait for a server, or fail. Neither may happen while the store is being written: all tables would wait."""

from dataclasses import dataclass

from stores.protocol import TableSpec, TableUpdate
from stores.rocks.state import TableState
from stores.rocks.write.incoming import Incoming, incoming
from stores.table import Offsets


@dataclass(frozen=True, slots=True)
class Prepared:
    """Replaces its update, as long as the table's positions have not changed."""

    update: TableUpdate
    came: Incoming
    spec: TableSpec
    """The spec whose decoder was used."""
    positions: Offsets
    """The table's positions at that time: records below them were left out."""

    @classmethod
    def of(cls, update: TableUpdate, table: TableState, spec: TableSpec, now: int) -> "Prepared":
        """Raises what the decoder raises."""
        came = incoming(table.name, spec, update.versions, table.positions, now)
        return cls(update, came, spec, table.positions)

    def fits(self, table: TableState) -> bool:
        return self.positions == table.positions
