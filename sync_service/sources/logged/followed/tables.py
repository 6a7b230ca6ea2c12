"""The tables of a source that names one: what is wrong with it ends the route."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from enrich.base.errors import BadRecord, ConfigError, EnrichError, Retryable
from enrich.kafka import Topics
from stores.external.postgres.log.slots import Slots
from sync_service.sources.logged.followed.table import Followed, TableRows, shape_of
from sync_service.sources.logged.place import TableState


class Tables(Protocol):
    """What a source follows. For one thread."""

    by_id: dict[int, Followed]
    """Those that are followed or may be, by their ids in the database."""

    def publish(self) -> bool:
        """Whether the publication had to be made anew: a slot from before it knows of none."""

    def begin(self, states: Mapping[str, TableState]) -> None:
        """With what is known of each table."""

    def look(self) -> Mapping[str, TableState]:
        """Looks what has become of the tables. Returns the states that are not what they were."""

    def waiting(self) -> Sequence[Followed]:
        """Those that are to be compared now."""

    def failed(self, table: Followed, error: EnrichError) -> None:
        """It could not be compared or followed. Raises the error if that is nothing of this table alone."""

    def settled(self, table: Followed) -> None:
        """It was compared."""

    def directory(self, table: Followed) -> Path:
        """Where what is known of its topic is kept."""

    def confirmed_as(self, table: Followed) -> str:
        """What `enrich sync confirm` calls it, after the source's name."""

    def described(self) -> tuple[Mapping[str, float], Mapping[str, Any]]:
        """Gauges and details for the status."""


@dataclass(frozen=True)
class TableNamed:
    """By the configuration."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...] | None


class OneTable:
    def __init__(self, named: TableNamed, topic: str, slots: Slots, topics: Topics, directory: Path) -> None:
        self._named = named
        self._topic = topic
        self._slots = slots
        self._topics = topics
        self._directory = directory
        self._table = slots.table(named.table, named.key)
        self._trouble: ConfigError | None = None
        """Why it cannot be followed any more."""
        self.by_id: dict[int, Followed] = {}

    def publish(self) -> bool:
        return self._slots.publish(self._table)

    def begin(self, states: Mapping[str, TableState]) -> None:
        named, table = self._named, self._table
        rows = TableRows(table.id, table.name, named.key, named.columns, table.generated)
        state = states.get(named.table, TableState())
        if tuple(state.key) != named.key or state.relation != table.id:
            state = state.anew()
        followed = Followed(named.table, self._topic, rows, state)
        self.by_id = {table.id: followed}

    def look(self) -> Mapping[str, TableState]:
        if self._slots.relation(self._named.table) != self._table.id:
            raise Retryable("the table was dropped or renamed", where=f"table {self._table.name}")
        if not self._slots.publishes(self._table):
            # The next run publishes it, or says what is missing.
            raise Retryable("the publication does not have the table any more", where=f"table {self._table.name}")
        changed = {}
        for followed in self.by_id.values():
            before, table = followed.state, followed.rows.id
            self._look_at_identity(followed)
            self._look_at_topic(followed)
            followed.look(shape_of(self._slots.columns(table)), self._slots.storage(table))
            if followed.state != before:
                changed[followed.name] = followed.state
        return changed

    def _look_at_identity(self, followed: Followed) -> None:
        try:
            self._slots.table(self._named.table, self._named.key)
        except ConfigError as error:
            followed.must_compare(error.what)  # noted first: what was deleted meanwhile is found once this is mended
            self._trouble = error

    def _look_at_topic(self, followed: Followed) -> None:
        identity = self._topics.identities([self._topic])[self._topic]
        if isinstance(identity, Retryable):
            return  # the brokers say so later
        topic_id = "" if isinstance(identity, EnrichError) else identity[0]
        if followed.state.is_followed and topic_id != followed.state.topic_id:
            followed.must_compare("its topic is gone, or another one")

    def waiting(self) -> Sequence[Followed]:
        if self._trouble is not None:
            raise self._trouble
        return [followed for followed in self.by_id.values() if not followed.state.is_followed]

    def failed(self, table: Followed, error: EnrichError) -> None:
        if isinstance(error, BadRecord):  # a row may be corrected, and no other route waits for it
            raise Retryable(error.what, where=f"table {table.name}", next_step=error.next_step) from error
        raise error

    def settled(self, table: Followed) -> None:
        pass

    def confirmed_as(self, table: Followed) -> str:  # noqa: ARG002 - see the interface
        return ""

    def directory(self, table: Followed) -> Path:  # noqa: ARG002 - see the interface
        return self._directory

    def described(self) -> tuple[Mapping[str, float], Mapping[str, Any]]:
        return {}, {}
