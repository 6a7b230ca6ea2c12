"""The tables of a source that names them by patterns: they come and go, and what is wrong with one holds it alone."""

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enrich.base.backoff import Backoff
from enrich.base.errors import ConfigError, EnrichError, Fatal, Fenced, Retryable, WouldLoseData
from enrich.kafka import Topics
from stores.external.postgres.log.catalog import Catalog, TableFound
from stores.external.postgres.log.slots import Slots
from sync_service.sources.logged.followed.table import Followed, TableRows, shape_of
from sync_service.sources.logged.place import TableState

_log = logging.getLogger("enrich.sync")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 300.0


def directory_of_table(directory: Path, topic: str) -> Path:
    """Where what is known of a table's topic is kept, of the source that has this directory."""
    return directory / "tables" / topic


@dataclass
class _Held:
    """A table that cannot go on, and when to try again."""

    error: EnrichError | None = None
    again_s: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S))
    shape: str = ""
    """Of the table: if that changes it is tried at once."""


class ManyTables:
    """For one thread."""

    def __init__(
        self,
        catalog: Catalog,
        slots: Slots,
        topics: Topics,
        topic_of: Callable[[str, str], str | None],
        make_topic: Callable[[str], None],
        directory: Path,
    ) -> None:
        """`topic_of`: of a schema and a table; None if they make no name. `make_topic`: unless it is there."""
        self._catalog = catalog
        self._slots = slots
        self._topics = topics
        self._topic_of = topic_of
        self._make_topic = make_topic
        self._directory = directory
        self._states: dict[str, TableState] = {}
        self._tables: dict[str, Followed] = {}
        self._held: dict[str, _Held] = {}
        self._shapes: dict[str, str] = {}
        self._published_at: dict[str, int] = {}
        """Newly published tables: of transactions below this id, the log may leave something out."""
        self._gone: list[str] = []
        self.by_id: dict[int, Followed] = {}

    def publish(self) -> bool:
        return self._slots.make_publication()

    def begin(self, states: Mapping[str, TableState]) -> None:
        self._states, self._tables, self.by_id = dict(states), {}, {}

    def look(self) -> Mapping[str, TableState]:
        if not self._slots.publishes_all_kinds():
            # The next run makes it so, or says what is missing.
            raise Retryable("the publication is gone, or leaves out some kinds of changes")
        before = {**self._states, **{name: table.state for name, table in self._tables.items()}}
        found = {}
        for each in self._catalog.tables():
            if each.is_named:
                found[each.full_name] = each
            elif each.is_added:
                with suppress(ConfigError, Retryable):  # it costs only that PostgreSQL sends what is not used
                    self._slots.take_from_publication(each.table)
        topics = self._topics_of(found.values())
        for name, each in found.items():
            self._look_at(name, each, topics.get(name))
        self._note_gone(found)
        self._check_topics()
        self.by_id = {table.rows.id: table for table in self._tables.values()}
        after = {name: table.state for name, table in self._tables.items()}
        return {name: state for name, state in {**self._states, **after}.items() if state != before.get(name)}

    def waiting(self) -> Sequence[Followed]:
        now = time.monotonic()
        asked = [
            table
            for name, table in self._tables.items()
            if not table.state.is_followed and (name not in self._held or now >= self._held[name].again_s)
        ]
        if not asked:
            return []
        ended = self._slots.transactions()[0] if self._published_at else 0
        waiting = [table for table in asked if self._published_at.get(table.name, 0) <= ended]
        for table in waiting:
            self._published_at.pop(table.name, None)
        return waiting

    def failed(self, table: Followed, error: EnrichError) -> None:
        if isinstance(error, Fatal | Fenced) and not isinstance(error, WouldLoseData):
            raise error
        self._slots.transactions()  # raises if the whole database is away
        self._hold(table.name, error)

    def settled(self, table: Followed) -> None:
        self._held.pop(table.name, None)

    def directory(self, table: Followed) -> Path:
        return directory_of_table(self._directory, table.topic)

    def confirmed_as(self, table: Followed) -> str:
        return f"/{table.name}"

    def described(self) -> tuple[Mapping[str, float], Mapping[str, Any]]:
        errors = {name: held.error for name, held in sorted(self._held.items()) if held.error is not None}
        followed = sum(table.state.is_followed for table in self._tables.values())
        waiting = [name for name, t in self._tables.items() if not t.state.is_followed and name not in errors]
        details = {
            "tables": followed,
            "waiting": sorted(waiting),
            "held": {name: {"why": error.what, "next_step": error.next_step} for name, error in errors.items()},
            "gone": self._gone,
            "warnings": [f"table {name} is held: {error}" for name, error in errors.items()],
        }
        return {"tables": float(followed), "tables_held": float(len(errors))}, details

    def _look_at(self, name: str, each: TableFound, topic: str | None) -> None:
        is_new = name not in self._shapes
        shape = self._shapes[name] = shape_of(each.columns)
        try:
            if each.trouble is not None:
                raise each.trouble
            if topic is None:
                raise ConfigError(
                    "its name makes no topic of its own: letters, digits, . _ and -, no two alike, and none that the "
                    "pipeline has for something else",
                    where=f"table {each.table.name}",
                    next_step="rename it, or leave it out of `tables`",
                )
            if not each.is_published:
                if name in self._held and time.monotonic() < self._held[name].again_s:
                    return
                self._slots.add_to_publication(each.table)
            state = self._states.get(name)
            if not each.is_published or (is_new and (state is None or not state.is_followed)):
                # Or it was published by a run before this one, that ended before it could wait.
                self._published_at[name] = self._slots.transactions()[1]
        except (ConfigError, Retryable) as error:
            self._set_aside(name, each, error)
            return
        held = self._held.get(name)
        # One that was set aside has been mended.
        if held is not None and (held.shape != shape or name not in self._tables):
            del self._held[name]
        self._take(name, each, topic, shape)

    def _take(self, name: str, each: TableFound, topic: str, shape: str) -> None:
        table = self._tables.get(name)
        if table is None or (table.rows.id, table.rows.key, table.topic) != (each.table.id, each.key, topic):
            state = table.state if table is not None else self._states.get(name, TableState())
            if (state.relation, tuple(state.key)) != (each.table.id, each.key):
                # One that was dropped and made again may be empty only until its rows are copied.
                state = state.anew()
            rows = TableRows(each.table.id, each.table.name, each.key, None, each.table.generated, each.full_name)
            table = self._tables[name] = Followed(name, topic, rows, state)
            if not state.is_followed and not state.is_sure:
                _log.info("the table %s is new: it is compared with the topic %s", name, topic)
        if table.state.is_followed and not each.is_published:
            table.must_compare("it was not in the publication")
        else:
            table.look(shape, each.storage)

    def _set_aside(self, name: str, each: TableFound, error: EnrichError) -> None:
        table = self._tables.pop(name, None)
        state = table.state if table is not None else self._states.get(name)
        if state is not None:
            self._states[name] = state.unsettled()
        self._slots.transactions()  # raises if the whole database is away
        self._hold(name, error, again=isinstance(error, Retryable))
        if each.is_added:
            # PostgreSQL refuses updates of a published table that has no identity.
            try:
                self._slots.take_from_publication(each.table)
            except (ConfigError, Retryable) as refused:
                self._hold(name, refused, again=False)

    def _hold(self, name: str, error: EnrichError, *, again: bool = True) -> None:
        held = self._held.setdefault(name, _Held())
        if held.error is None or str(held.error) != str(error):
            _log.warning("the table %s is held, others go on: %s", name, error)
        held.error, held.shape = error, self._shapes[name]
        held.again_s = time.monotonic() + held.backoff.next_s() if again else 0.0

    def _note_gone(self, found: Mapping[str, TableFound]) -> None:
        for name in [name for name in self._tables if name not in found]:
            self._states[name] = self._tables.pop(name).state
        for name in [name for name in self._held if name not in found]:
            del self._held[name]
        gone = sorted(name for name in self._states if name not in found)
        for name in set(gone) - set(self._gone):
            _log.warning("the table %s is gone, or matches no pattern any more: its topic stays as it is", name)
            # Also of one that an earlier run followed: what the log tells of it from here on is passed by.
            self._states[name] = self._states[name].anew()
            self._forget_if_dropped(name)
        self._gone = gone

    def _forget_if_dropped(self, name: str) -> None:
        """What is known of its topic takes room for each key, and nobody may ever ask for it again. One of the same
        name that is made later reads it from the topic."""
        schema, _, table = name.partition(".")
        topic, relation = self._topic_of(schema, table), self._states[name].relation
        is_another_s = any(other.topic == topic for other in self._tables.values())
        if topic is None or is_another_s or self._slots.rows("SELECT FROM pg_class WHERE oid = %s", relation):
            return
        shutil.rmtree(directory_of_table(self._directory, topic), ignore_errors=True)

    def _topics_of(self, found: Iterable[TableFound]) -> Mapping[str, str]:
        """Of each table its topic, unless it has none or another table has it."""
        topics: dict[str, str] = {}
        taken: set[str] = {table.topic for table in self._tables.values()}
        for each in found:
            name, topic = each.full_name, self._topic_of(each.schema, each.name)
            known = self._tables.get(name)
            if topic is not None and (topic not in taken or (known is not None and known.topic == topic)):
                topics[name] = topic
                taken.add(topic)
        return topics

    def _check_topics(self) -> None:
        followed = [table for table in self._tables.values() if table.state.is_followed]
        identities = self._topics.identities([table.topic for table in followed]) if followed else {}
        for table in followed:
            identity = identities[table.topic]
            if isinstance(identity, EnrichError) or identity[0] != table.state.topic_id:
                table.must_compare("its topic is gone, or another one")
        for table in self._tables.values():
            if not table.state.is_followed and table.name not in self._held:
                try:
                    self._make_topic(table.topic)
                except ConfigError as error:
                    self._hold(table.name, error)
