"""The loop of a source: follow the topic, read the source, compare, and write the differences."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from enrich.base.backoff import Backoff
from enrich.base.errors import BadRecord, CorruptState, EnrichError, Retryable, WouldLoseData
from enrich.codecs.encoding import Encoder
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.service.routes import RouteState
from enrich.service.summed import Summed
from stores.clock import SystemClock
from sync_service.sources.known.catching_up import TopicFacts
from sync_service.sources.known.deletions import DeleteGuard
from sync_service.sources.known.differences import Counts, Differences
from sync_service.sources.known.remembered import Remembered
from sync_service.sources.known.rows import KnownRows
from sync_service.sources.polled.source import Answer, Hints, Progress, Source
from sync_service.sources.reporting import StatusReporter
from sync_service.sources.writing import Writer

_log = logging.getLogger("enrich.sync")

_FLUSH_EVERY_S = 60.0
_LONGEST_PAUSE_S = 30.0
_SLICE_S = 0.5
"""How long a stop or a lost turn may wait to be seen."""
_GAP_PAUSE_S = 1.0
"""A source that keeps breaking off what it tells is not read whole all the time."""

_READ, _CHANGED, _DELETED = "read", "changed", "deleted"
Ask = Callable[[Progress, Sequence[str] | None], AbstractContextManager[Answer | None]]


@dataclass(frozen=True, slots=True)
class Tools:
    """What the rounds of one source work with."""

    source: Source
    encoder: Encoder
    encoding: str
    """See `Progress`."""
    remembered: Remembered
    producer: TransactionalProducer
    guard: DeleteGuard
    facts: TopicFacts
    directory: Path


class Rounds:
    def __init__(
        self, tools: Tools, checkpoint: Callable[[], None], reporter: StatusReporter, stopping: threading.Event
    ) -> None:
        """`checkpoint` is called between two steps, and raises to end the rounds."""
        self._tools = tools
        self._checkpoint = checkpoint
        self._reporter = reporter
        self._stopping = stopping
        self._backoff = Backoff(0.5, _LONGEST_PAUSE_S)
        self._flushed = time.monotonic()
        self._rebuilds = 0
        self._missing = np.zeros(0, np.bool_)
        """By slot of the known rows, which the last whole reading was without; for sources where once is not enough."""
        self._missing_of: KnownRows | None = None
        self._told = Summed[str]()
        """Of what the source tells between two readings of all rows: there may be a round for each change."""
        self._rejected = Summed[str]()
        """By reason."""
        self._shown: tuple[Mapping[str, float], Sequence[str]] | None = None
        """Figures and warnings of the last reading."""

    def run(self, interval_s: float) -> None:
        """Goes on until the checkpoint raises, or Kafka."""
        source = self._tools.source
        try:
            while True:
                pause = self._round(source.ask, interval_s)
                if pause is None:
                    pause = interval_s if source.hints is None else self._listen(source.hints, interval_s)
                self._wait(pause)
        finally:
            self._log_counts(self._told.rest(), self._rejected.rest())

    def _listen(self, hints: Hints, seconds: float) -> float:
        """Follows what the source tells, until all rows are due again. Returns the pause that is left until then."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._checkpoint()
            self._log_counts(self._told.due(), self._rejected.due())
            try:
                has_heard = hints.wait(min(left, _SLICE_S))
            except Retryable as error:
                _log.info("%s: all rows are read", error.what, extra={"route": self._reporter.status.name})
                return min(left, _GAP_PAUSE_S)
            if has_heard and (pause := self._round(hints.ask, seconds)) is not None:
                return pause
        return 0.0

    def _round(self, ask: Ask, interval_s: float) -> float | None:
        """If it failed, the pause until all rows are to be read, in seconds."""
        remembered = self._tools.remembered
        try:
            if remembered.follow(self._checkpoint) and self._tools.source.may_rest:
                self._forget_progress()
            self._ask_and_write(ask)
        except CorruptState as error:
            remembered.forget(error)
            return 0.0
        except WouldLoseData as error:
            _log.error("%s", error, extra={"route": self._reporter.status.name})
            self._reporter.failed(error, RouteState.held)
            return max(interval_s, self._backoff.next_s())
        except _NoAnswerError as failed:
            self._checkpoint()
            _log.warning("%s", failed.error, extra={"route": self._reporter.status.name})
            self._reporter.failed(failed.error, RouteState.waiting)
            return self._backoff.next_s()
        finally:
            self._reporter.count(rebuilds=remembered.rebuilds - self._rebuilds)
            self._rebuilds = remembered.rebuilds
        self._backoff.reset()
        return None

    def _ask_and_write(self, ask: Ask) -> None:
        tools, known = self._tools, self._tools.remembered.known
        progress = known.progress
        if progress.encoding != tools.encoding:
            progress = Progress()  # other rows, or the same ones encoded differently
        work = tools.directory / "work"
        with Differences(known, tools.encoder, tools.source.key, work, largest=tools.facts.largest) as differences:
            after = self._compared(ask, differences, progress)
            if after is None:  # what was left out still is
                self._reporter.progressed(lag=0)
                self._show(*(self._shown or ({"rows": known.rows}, [])))
                return
            counts = differences.counts
            tools.guard.require(counts, known.rows, SystemClock().now_ms())
            spared = self._spared(differences)
            if counts.missing:
                differences.delete_missing()
            is_whole = after.whole_at_ms != progress.whole_at_ms
            if is_whole and (counts.changed or counts.missing) and known.progress.position is not None:
                # Until it is written to its end the topic is like no answer, and not like the last one either.
                self._forget_progress()
                known.flush()
            self._write(differences)
        if not spared and differences.has_all_keys:
            tools.guard.settle()
        if spared or differences.without_record not in (None, after.without_record):
            after = replace(after, whole_at_ms=None)
        known.note(progress=replace(after, encoding=tools.encoding))
        self._flush(counts)
        self._report(counts, known.rows)
        sums = {_READ: counts.read, _CHANGED: counts.changed, _DELETED: counts.missing}
        if ask == tools.source.ask:
            self._log_counts(sums, counts.reasons)
        else:
            self._log_counts(self._told.add(sums), self._rejected.add(counts.reasons))

    def _forget_progress(self) -> None:
        """All is read the next time, whether it has changed or not."""
        self._tools.remembered.known.note(progress=Progress())

    def _spared(self, differences: Differences) -> int:
        """Keys that are missing for the first time, where once is not enough. Returns how many."""
        if self._tools.source.readings_until_deleted == 1 or not differences.has_all_keys:
            return 0
        before, self._missing = self._missing, differences.unseen.copy()
        is_new = np.ones(len(self._missing), np.bool_)
        if self._missing_of is self._tools.remembered.known:
            length = min(len(before), len(is_new))
            is_new[:length] = ~before[:length]
        self._missing_of = self._tools.remembered.known
        return differences.spare(is_new) if differences.counts.missing else 0

    def _compared(self, ask: Ask, differences: Differences, progress: Progress) -> Progress | None:
        """The source's progress after its answer; None if it has nothing new. Produces nothing yet."""
        tools = self._tools
        try:
            with ask(progress, tools.encoder.columns) as answer:
                if answer is None:
                    return None
                for reading in answer.readings:
                    differences.compare(reading, self._checkpoint)
                after = answer.progress
        except (Retryable, BadRecord) as error:  # one row may be wrong, and be corrected
            raise _NoAnswerError(error) from error
        is_whole = after.whole_at_ms != progress.whole_at_ms
        return replace(after, without_record=differences.without_record if is_whole else progress.without_record)

    def _write(self, differences: Differences) -> None:
        counts = differences.counts
        left = counts.changed + counts.missing
        if not left:
            return
        started = time.monotonic()
        writer = Writer(self._tools.producer, self._tools.facts.name, self._tools.remembered.known)
        total = left

        def checkpoint(rows: int) -> None:
            nonlocal left
            left -= rows
            self._reporter.progressed(lag=left, rows_per_s=(total - left) / max(time.monotonic() - started, 1e-3))
            self._reporter.count(rows_written=rows)
            self._checkpoint()

        writer.write(differences.batches(), checkpoint)

    def _flush(self, counts: Counts) -> None:
        if counts.changed or counts.missing or time.monotonic() - self._flushed > _FLUSH_EVERY_S:
            self._tools.remembered.known.flush()
            self._flushed = time.monotonic()

    def _report(self, counts: Counts, rows: int) -> None:
        self._reporter.count(
            readings=1, rows_read=counts.read, rows_deleted=counts.missing, rows_rejected=counts.rejected
        )
        self._reporter.progressed(lag=0)
        warnings = _warnings(counts.reasons)
        hints = self._tools.source.hints
        if hints is not None and hints.lacks is not None:
            warnings.append(hints.lacks)
        self._shown = {"rows": rows, "rejected": counts.rejected}, warnings
        self._show(*self._shown)

    def _show(self, figures: Mapping[str, float], warnings: Sequence[str]) -> None:
        self._reporter.describe(figures, {"warnings": list(warnings)})

    def _log_counts(self, sums: Mapping[str, int], rejected: Mapping[str, int]) -> None:
        extra = {"route": self._reporter.status.name, "read": sums.get(_READ, 0)}
        if rejected:
            _log.warning("%s", "; ".join(_warnings(rejected)), extra=extra)
        changed, deleted = sums.get(_CHANGED, 0), sums.get(_DELETED, 0)
        if changed or deleted:
            _log.info("%d rows changed, %d deleted", changed, deleted, extra=extra)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self._checkpoint()
        while (left := end - time.monotonic()) > 0:
            self._stopping.wait(min(left, _SLICE_S))
            self._checkpoint()


def _warnings(rejected: Mapping[str, int]) -> list[str]:
    return [f"{number} rows cannot become records: {reason}" for reason, number in rejected.items()]


class _NoAnswerError(Exception):
    """This time the source could not answer, or its answer cannot be used."""

    def __init__(self, error: EnrichError) -> None:
        super().__init__(str(error))
        self.error = error
