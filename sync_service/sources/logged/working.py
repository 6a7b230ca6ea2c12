"""The work of a source that has its turn: look at the tables, compare those that need it, follow the log."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from enrich.base.errors import BadRecord, ConfigError, Retryable, WouldLoseData
from stores.external.postgres.log.stream import lsn_text
from sync_service.sources.known.catching_up import facts_of
from sync_service.sources.known.deletions import DeleteGuard
from sync_service.sources.logged.comparing import Comparing
from sync_service.sources.logged.followed.table import Followed, TableError
from sync_service.sources.logged.followed.tables import Tables
from sync_service.sources.logged.following import Following, Tools
from sync_service.sources.logged.place import TableState
from sync_service.sources.route import SourceWork

_log = logging.getLogger("enrich.sync")

_LOOK_EVERY_S, _MEASURED_EVERY_S = 10.0, 0.5
_BEAT_BYTES = 16 << 20
"""So much of the log may be held without a message of ours."""


@dataclass(frozen=True)
class Parts:
    work: SourceWork
    tools: Tools
    tables: Tables
    comparing: Comparing


class Working:
    def __init__(self, parts: Parts, following: Following, checkpoint: Callable[[], None]) -> None:
        """`checkpoint` is called between two steps; it may raise."""
        self._parts = parts
        self._following = following
        self._checkpoint = checkpoint
        self._looked_s = self._measured_s = float("-inf")
        self._rejected: dict[str, list[str]] = {}
        """By table, what its comparison could not make records of."""

    def run(self) -> None:
        """Until something raises."""
        parts, following = self._parts, self._following
        while True:
            self._keep_up()
            for table in parts.tables.waiting():
                self._compare(table)
            try:
                following.step(self._alive)
            except TableError as failed:
                self._give_up(failed)
            except Retryable:
                self._checkpoint()  # as below
                raise
            self._checkpoint()

    def _alive(self) -> None:
        self._parts.tools.stream.keep_alive()
        self._checkpoint()

    def _keep_up(self) -> None:
        tools, now = self._parts.tools, time.monotonic()
        is_due = now - self._looked_s > _LOOK_EVERY_S
        if now - self._measured_s > _MEASURED_EVERY_S:
            self._measured_s = now
            slot = tools.slots.slot()
            if is_due or (slot is not None and slot.held_bytes > _BEAT_BYTES):
                # Else the slot of tables where nothing happens would hold all of the log.
                tools.slots.beat()
        if is_due:
            self._looked_s = now
            self._note(self._parts.tables.look())
            self._resume()
            self._describe()

    def _resume(self) -> None:
        """Makes ready what was compared before this start."""
        comparing, changed = self._parts.comparing, {}
        for table in self._parts.tables.by_id.values():
            if not table.state.is_followed or table.encoder is not None:
                continue
            try:
                facts = facts_of(comparing.topics, table.topic, comparing.producing)
                encoder = comparing.encoders.known(table.topic, table.state.schema_id)
            except (ConfigError, BadRecord) as error:
                self._parts.tables.failed(table, error)
                table.must_compare("it cannot go on as it was")
                changed[table.name] = table.state
                continue
            if facts.topic_id != table.state.topic_id:
                table.must_compare("the topic is another one")
                changed[table.name] = table.state
                continue
            encoding = table.rows.encoding(encoder)
            if table.state.encoding not in ("", encoding):
                table.must_compare("its rows become other records now")
                changed[table.name] = table.state
                continue
            if not table.state.encoding:
                changed[table.name] = replace(table.state, encoding=encoding)
            table.compared(changed.get(table.name, table.state), encoder, facts.largest)
            self._following.take_up(table)
        self._note(changed)

    def _note(self, changed: Mapping[str, TableState]) -> None:
        if changed:
            self._following.note(self._following.place, changed)

    def _compare(self, table: Followed) -> None:
        parts, following = self._parts, self._following
        work, tables = parts.work, parts.tables
        extra = {"route": work.name}
        _log.info("the topic %s is compared with the table: %s", table.topic, table.why, extra=extra)
        directory = tables.directory(table)
        confirm = work.confirm.replace(f"confirm {work.name}", f"confirm {work.name}{tables.confirmed_as(table)}", 1)
        where = f"source {work.name}{tables.confirmed_as(table)}"
        guard = DeleteGuard(directory, work.delete_guard, where=where, next_step=confirm)
        try:
            compared = parts.comparing.run(
                table, directory, guard, following.applied, following.place.version, self._alive
            )
        except (ConfigError, BadRecord, WouldLoseData, Retryable) as error:
            self._checkpoint()  # a stop ends what waits for the database, which is no failure
            tables.failed(table, error)
            self._describe()
            return
        table.compared(compared.state, compared.encoder, compared.largest)
        tables.settled(table)
        following.note(replace(following.place, version=compared.version), {table.name: compared.state})
        following.take_up(table)
        counts, reporter = compared.counts, parts.tools.reporter
        reporter.count(
            readings=1,
            rows_read=counts.read,
            rows_written=counts.changed + counts.missing,
            rows_deleted=counts.missing,
            rows_rejected=counts.rejected,
        )
        self._rejected[table.name] = [
            f"{number} rows cannot become records: {reason}" for reason, number in counts.reasons.items()
        ]
        reporter.describe({"rows": compared.rows, "rejected": counts.rejected}, reporter.status.details)
        self._describe()
        reporter.progressed(lag=0)

    def _give_up(self, failed: TableError) -> None:
        """Nothing of what was being written was committed: it is read again, without that table."""
        tables = self._parts.tables
        table = next(table for table in tables.by_id.values() if table.name == failed.name)
        tables.failed(table, failed.error)
        table.must_compare("it could not be followed")
        self._note({table.name: table.state})
        raise Retryable(f"the log is read again, without the table {table.name}: {failed.error.what}")

    def _describe(self) -> None:
        tools, place = self._parts.tools, self._following.place
        slot, status = tools.slots.slot(), tools.reporter.status
        gauges, details = self._parts.tables.described()
        held = {} if slot is None else {"slot_bytes": float(slot.held_bytes)}
        rejected = [text for texts in self._rejected.values() for text in texts]
        own = {"slot": place.slot, "place": lsn_text(place.at), "warnings": [*rejected, *details.get("warnings", ())]}
        tools.reporter.describe({**status.gauges, **gauges, **held}, {**status.details, **details, **own})
