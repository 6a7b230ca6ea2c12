"""Runs a reconciliation: compares, repairs if asked, and raises the generation if the topic was recreated."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from enrich.base.errors import Retryable, WouldLoseData
from stores.clock import SystemClock
from stores.external import VersionedStore
from sync_service.reconcile.comparing import Comparison
from sync_service.reconcile.differences import LEFT_ALONE, Differences
from sync_service.reconcile.repairing import Repair
from sync_service.reconcile.settling import Settling
from sync_service.reconcile.topic import TopicReading
from sync_service.writeback.generation import OFFSETS, Generation, may_fall, note_name, said_of
from sync_service.writeback.plan import WritebackPlan
from sync_service.writeback.records import RecordReader
from sync_service.writeback.route import Clients

_TRIES = 10
"""The route may change the note, too."""


@dataclass(frozen=True)
class Report:
    """What a reconciliation found and did."""

    route: str
    rows: int
    """How many the store should have."""
    differences: Differences
    generation: int
    raised: str | None = None
    """Why the generation was raised, or has to be raised."""
    repaired: bool = False
    refused: int = 0
    """Rows that the store refused during the repair."""
    unwritable: int = 0
    """Records of the topic that cannot become rows: they are in the DLQ."""
    left: int = 0
    """Differences that a repair does not touch, since the store may be right."""
    foreign: int = 0
    """Rows whose keys look like the route's and that have no version: neither compared nor touched."""
    some_foreign: Sequence[bytes] = ()
    seconds: float = 0.0
    began_ms: int = 0

    @property
    def differing(self) -> int:
        """How many rows differ now."""
        return self.left + self.refused if self.repaired else len(self.differences)

    @property
    def agrees(self) -> bool:
        """Topic and store agree now."""
        if self.refused or self.left:
            return False
        return self.repaired or not (self.differences or self.raised)


class Reconciliation:
    """Reconciles one write-back route, over its own connections. The route may run, be held or be stopped meanwhile."""

    def __init__(self, plan: WritebackPlan, clients: Clients, stopping: threading.Event | None = None) -> None:
        self._plan = plan
        self._clients = clients
        self._stopping = stopping or threading.Event()
        self._topic = plan.section.topic
        self._topics = clients.topics()
        self._settling = Settling(clients.consumer, plan.group, plan.section.topic, self._stopping)
        self._note = note_name(plan.pipeline, plan.name)

    def run(self, *, repair: bool, yes: bool = False, raise_generation: bool = False) -> Report:
        """Raises WouldLoseData, and changes nothing, if a repair would delete rows and `yes` is not set."""
        began, began_ms = time.monotonic(), SystemClock().now_ms()
        with closing(self._plan.open_store()) as store:
            store.check()
            note = store.load_note(self._note)
            known = None if note is None else Generation.from_text(note)
            # Read the id first: if the topic is recreated in between, the ends must not be taken for the known topic's.
            topic_id, ends = self._topics.topic_id(self._topic), self._ends()
            raised = self._why_raised(known, topic_id, ends) or ("as was asked for" if raise_generation else None)
            if known is None or raised is None:
                now = known or Generation(1, topic_id, dict.fromkeys(ends, 0), versions=self._plan.versions)
                report, settles = self._compare(store, now, ends, repair=repair, yes=yes)
            else:
                report = self._raise(store, note, known, topic_id, ends, raised, repair=repair, yes=yes)
                now, settles = known, False
            self._note_compared(store, now, began_ms, report.differing, settles=settles)
        return replace(report, seconds=round(time.monotonic() - began, 3), began_ms=began_ms)

    def _compare(
        self, store: VersionedStore, now: Generation, ends: Mapping[int, int], *, repair: bool, yes: bool
    ) -> tuple[Report, bool]:
        """Also whether it settles the note's doubt."""
        reading = self._reading(store, now)
        comparison = Comparison(reading, store, self._ends, self._settling.wait)
        differences, refused = self._without_expired(comparison.differences(ends)), 0
        repaired = differences.but(LEFT_ALONE)
        if repair and repaired:
            self._guard(repaired, comparison.rows, None, yes=yes)
            repairing = Repair(reading, store, self._row)
            repairing.write(repaired, self._ends())
            refused = repairing.refused
        report = self._report(
            comparison,
            differences,
            now.number,
            repaired=repair and bool(repaired),
            refused=refused,
            left=len(differences) - len(repaired),
        )
        return report, not refused and (repair or not repaired)

    def _raise(
        self,
        store: VersionedStore,
        note: str | None,
        known: Generation,
        topic_id: str,
        ends: Mapping[int, int],
        raised: str,
        *,
        repair: bool,
        yes: bool,
    ) -> Report:
        """Writes all rows again with versions of the next generation; the route then starts at the ends, in the one
        after that. So no record of the past, in whatever order it comes, can win over a later record."""
        number = known.number
        reading = self._reading(store, Generation(number + 2, topic_id, ends, known.born))
        comparison = Comparison(reading, store, self._ends, self._settling.wait)
        differences, refused = comparison.of_content(ends), 0
        unwritable = differences.count_of("unwritable")
        falls = may_fall(known, self._plan.versions)
        if self._plan.section.version is None and (falls or raised == "as was asked for"):
            number = max(number, comparison.largest_version // OFFSETS)
        compared_ms = SystemClock().now_ms()
        now = replace(
            Generation(number + 2, topic_id, ends, known.born, versions=self._plan.versions),
            paused=known.paused,
            compared_ms=compared_ms,
        )
        if repair:
            self._guard(differences, comparison.rows, raised, yes=yes)
            if now.number != known.number + 2:
                reading = self._reading(store, now)
                comparison = Comparison(reading, store, self._ends, self._settling.wait)
                differences = comparison.of_content(ends)
                unwritable = differences.count_of("unwritable")
            repairing = Repair(reading, store, self._row)
            repairing.write_all(comparison.expected.hashes, comparison.expected.versions, ends)
            repairing.write(differences.of(["extra"]), ends)
            # Versions from headers or columns do not rise with the generation: rows of the old topic may be above.
            left = Comparison(reading, store, self._ends, self._settling.wait).differences(ends)
            repairing.write(left.of(["missing", "older", "altered", "newer"]), self._ends())
            refused = repairing.refused
            now = replace(now, differing=refused + unwritable)
            while not store.save_note(self._note, now.to_text(), note):
                note = store.load_note(self._note)
                found = None if note is None else Generation.from_text(note)
                # A cut that came meanwhile: the ends are those of records that the topic has lost.
                if found is None or found != known or found.cut != known.cut:
                    raise Retryable(
                        "another reconciliation raised the generation meanwhile, or the topic lost records",
                        where=f"route {self._plan.name}",
                        next_step="run it again",
                    )
                now = replace(now, paused=found.paused)  # what a person has said meanwhile stays
        return self._report(
            comparison,
            differences,
            now.number if repair else known.number,
            raised=raised,
            repaired=repair,
            refused=refused,
            left=unwritable,
        )

    def _report(self, comparison: Comparison, differences: Differences, generation: int, **more: Any) -> Report:
        return Report(
            self._plan.name,
            comparison.rows,
            differences,
            generation,
            unwritable=comparison.unwritable,
            foreign=comparison.foreign,
            some_foreign=comparison.some_foreign,
            **more,
        )

    def _note_compared(
        self, store: VersionedStore, now: Generation, began_ms: int, differing: int, *, settles: bool
    ) -> None:
        """Unless it was raised meanwhile. `settles`: the comparison has resolved the doubt."""
        for _ in range(_TRIES):
            text = store.load_note(self._note)
            known = None if text is None else Generation.from_text(text)
            if known is None or known != now:
                return
            doubt = None if settles and known.doubt == now.doubt else known.doubt
            noted = replace(known, doubt=doubt, compared_ms=began_ms, differing=differing)
            if store.save_note(self._note, noted.to_text(), text):
                return

    def noted(self) -> Generation | None:
        """The note: it may say why a comparison is due early, and when the last one was."""
        with closing(self._plan.open_store()) as store:
            note = store.load_note(self._note)
        return None if note is None else Generation.from_text(note)

    def doubt(self) -> str | None:
        known = self.noted()
        return None if known is None else known.doubt

    def _why_raised(self, known: Generation | None, topic_id: str, ends: Mapping[int, int]) -> str | None:
        if known is None:
            return None
        if topic_id != known.topic_id:
            return "was recreated"
        if known.cut is not None:
            return f"lost records that had been read ({known.cut})"
        if ends.keys() != known.starts.keys():
            return f"has {len(ends)} partitions and had {len(known.starts)}"
        if may_fall(known, self._plan.versions):
            return f"has rows whose versions are {said_of(self._plan.versions)} now"
        return None

    def _reading(self, store: VersionedStore, generation: Generation) -> TopicReading:
        decoder, column = self._clients.decoder(self._plan), self._plan.section.version
        reader = RecordReader(decoder, column, generation, keeps_releases=self._plan.keeps_releases)
        return TopicReading(self._clients.consumer, self._topics, self._topic, reader, store, generation, self._check)

    def _check(self) -> None:
        if self._stopping.is_set():
            raise Retryable("the reconciliation was stopped", where=f"route {self._plan.name}")

    def _ends(self) -> Mapping[int, int]:
        return self._topics.end_offsets(self._topic)

    def _without_expired(self, differences: Differences) -> Differences:
        """If rows have a TTL, missing ones have expired."""
        redis = self._plan.section.to.redis
        if redis is None or redis.ttl is None:
            return differences
        return differences.but(["missing"])

    @property
    def _row(self) -> pa.StructType:
        return pa.struct(list(self._plan.section.columns.arrow))

    def _guard(self, differences: Differences, rows: int, raised: str | None, *, yes: bool) -> None:
        deletes = differences.count_of("extra")
        if yes or not deletes:
            return
        why = f"and keep {rows:,}" if raised is None else f"and the topic {raised}"
        raise WouldLoseData(
            f"this would delete {deletes:,} rows that the topic does not have, {why}",
            where=f"route {self._plan.name}",
            next_step="nothing was changed: list them without --repair, and add --yes if they may be deleted",
        )
