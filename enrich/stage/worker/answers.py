"""Answers one batch of events: all lookups at one seq, waiting if a policy says so, then the policies."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.host.reader.views import distinct, may_be_loaded
from enrich.stage.masking.rows import masked_rows
from enrich.stage.task.fate import Mask
from enrich.stage.task.lookups import StageLookup
from enrich.stage.task.report import STATUSES, BatchReport, host, own_memory, statuses_of
from enrich.stage.task.spec import LINEAGE_TYPE, TaskSpec
from enrich.stage.worker.policies import judge, without_row
from stores.clock import SystemClock
from stores.freshness import CLOCKS_DIFFER_MS
from stores.keys import milliseconds
from stores.protocol import TableView
from stores.table import Found, Status

AHEAD_MS = 10_000
"""How far an event's time may be ahead of this host's clock. A time further ahead is taken to be wrong: no table would
be complete beyond it in time, and all other events of its batch would wait for the deadline."""

_STATUS_NAMES = pa.array(STATUSES, pa.string())


@dataclass(frozen=True)
class Questions:
    """The columns of a batch of events that the lookups need."""

    usable: Mask
    """False if the event could not be parsed."""
    keys: Sequence[pa.Array]
    times: pa.Array | None = None


class NotYet(Exception):
    """Some events still have to wait. Ask again a little later."""


class Views(Protocol):
    """The tables at the task's seq, which advances only if a policy has to wait for rows."""

    def table(self, name: str) -> TableView: ...

    def renew(self) -> None:
        """Advances all tables to the newest seq."""

    def pause(self) -> None:
        """Waits a moment for a newer seq. Raises NotYet where something else can be done meanwhile."""

    def load(self, wanted: Mapping[str, Sequence[bytes]]) -> None:
        """Waits until these keys of tables on demand are loaded, within each table's deadline. Raises NotYet as `pause`
        does."""

    def deadline_s(self, name: str) -> float:
        """How long `on_miss: wait` may last for this table."""


class Answers(Protocol):
    """Answers the batches of one task."""

    def answer(self, questions: Questions) -> pa.StructArray:
        """Answers of the type `answer_type` of the task's spec."""


def answered(
    spec: TaskSpec, views: Views, questions: Questions, waited_s: float = 0.0, since: float | None = None
) -> pa.StructArray:
    """The answer to each event, of type `spec.answer_type`. `waited_s`: time already spent waiting for the tables.
    `since`: when these questions were asked first, by the monotonic clock. Raises NotYet if the views do."""
    began = time.monotonic() if since is None else since
    found = _found_or_waited(spec.lookups, views, questions, began)
    verdict = judge(spec.lookups, found, questions.keys, questions.usable)
    columns = [
        masked_rows(rows, lookup.masks, lookup.kind, spec.mask_key)
        for rows, lookup in zip(verdict.objects, spec.lookups, strict=True)
    ]
    if spec.lineage:
        columns += [_lineage(lookup, each) for lookup, each in zip(spec.lookups, found, strict=True)]
    tally = BatchReport(
        host(),
        statuses_of(found, questions.usable),
        {rule.name: _age_s(views, rule.name) for rule in spec.rules},
        waited_s,
        time.monotonic() - began,
        own_memory(),
    )
    columns += [verdict.fate, verdict.decided_by, verdict.status, tally.column(len(verdict.fate))]
    return pa.StructArray.from_arrays(columns, fields=list(spec.answer_type))


def _age_s(views: Views, table: str) -> float | None:
    through = views.table(table).complete_through
    return None if through is None else max(0, SystemClock().now_ms() - through) / 1000


def _found_or_waited(lookups: Sequence[StageLookup], views: Views, questions: Questions, began: float) -> list[Found]:
    # Of when they were asked first: what counts as now would else be ahead of the tables for ever.
    asked_ms = SystemClock().now_ms() - round(1000 * (time.monotonic() - began))
    times_ms = None if questions.times is None else _plausible(questions.times, asked_ms)
    has_asked = False
    while True:
        found = [
            _found(lookup, views, key, questions.times) for lookup, key in zip(lookups, questions.keys, strict=True)
        ]
        if not has_asked:
            has_asked = True
            if _loaded(lookups, found, views, questions):
                views.renew()
                continue
        waited = time.monotonic() - began
        asked = zip(lookups, found, strict=True)
        if times_ms is None or not any(_must_wait(*each, views, questions.usable, times_ms, waited) for each in asked):
            return found
        # All lookups again, not only those that wait: all answers of an event must be of one seq.
        views.pause()


def _loaded(lookups: Sequence[StageLookup], found: Sequence[Found], views: Views, questions: Questions) -> bool:
    """Whether rows that events wait for have been loaded meanwhile, of tables on demand."""
    wanted: dict[str, list[bytes]] = {}
    for lookup, each, keys in zip(lookups, found, questions.keys, strict=True):
        if lookup.loads and (missing := distinct(keys, questions.usable & may_be_loaded(each))):
            wanted.setdefault(lookup.table, []).extend(missing)
    if wanted:
        views.load(wanted)
    return bool(wanted)


def _found(lookup: StageLookup, views: Views, keys: pa.Array, times: pa.Array | None) -> Found:
    as_of = times if lookup.as_of else None
    return views.table(lookup.table).lookup(keys, lookup.columns.names, as_of=as_of)


def _plausible(times: pa.Array, now_ms: int) -> pa.Int64Array:
    """The events' times, with those too far ahead replaced by now."""
    times_ms = milliseconds(times)
    return pc.if_else(pc.greater(times_ms, now_ms + AHEAD_MS), now_ms, times_ms)


def _must_wait(
    lookup: StageLookup, found: Found, views: Views, usable: Mask, times_ms: pa.Int64Array, waited: float
) -> bool:
    if not lookup.waits or waited >= views.deadline_s(lookup.table):
        return False
    concerned = usable & ~_is(found, Status.NULL_KEY) & ~_is(found, Status.BAD_KEY)
    if not lookup.as_of:  # with as_of an event that has a row waits too: a newer version before its time may still come
        concerned &= without_row(found)
    newest = pc.max(times_ms.filter(pa.array(concerned))).as_py()
    through = views.table(lookup.table).complete_through
    return newest is not None and (through is None or through < newest + CLOCKS_DIFFER_MS)


def _is(found: Found, status: Status) -> Mask:
    return np.asarray(found.status.to_numpy(zero_copy_only=False) == status)


def _lineage(lookup: StageLookup, found: Found) -> pa.StructArray:
    table = pa.repeat(pa.scalar(lookup.table), len(found.status))
    columns = [table, found.partition, found.offset, found.timestamp.cast(pa.int64()), _STATUS_NAMES.take(found.status)]
    return pa.StructArray.from_arrays(columns, fields=list(LINEAGE_TYPE))
