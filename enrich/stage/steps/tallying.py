"""Tallies of a stage's events: which came, what became of each, and how late they were. Written beside the stage's
records, so that Spark records a batch as done only when they are written, too."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.steps.leaving.fates import fates_of
from enrich.stage.steps.leaving.headers import ORIGIN_FORM
from enrich.stage.steps.step import Columns, Work
from enrich.stage.steps.timing import number_of, text_of
from enrich.stage.task.columns import (
    CAME,
    EVENT_TIME,
    FAILED,
    FATE,
    OFFSET,
    ORIGIN_HEADER,
    OUTPUT,
    PARTITION,
    RECORDS,
    ROUTED,
    TALLIES,
    TOPIC,
    USABLE,
)
from enrich.stage.task.fate import Fate, Mask
from enrich.stage.task.pin import Pin

if TYPE_CHECKING:
    from enrich.tally import Origins, Tally

_LOWER = 0xFFFFFFFF
RECORD = pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())])

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TallyEvents:
    """The last step. A batch's last event carries its reports: a list that begins with a null, for the event itself.
    The other events carry no list. The last one, as records are sent in this order: a report that is sent before its
    events would say that they went, while the next node has read all that there is and none of them."""

    pipeline: str
    stage: str
    routes: Sequence[str]
    """Empty: there is one output."""
    has_lookups: bool
    may_fail: bool
    """Whether there is the column `FAILED`."""
    topic: str | None = None
    """The topic of all events, if there is only one: its name with each event takes a tenth of a microsecond."""

    @property
    def needs(self) -> Collection[str]:
        topics = [TOPIC] if self.topic is None else []
        fates = [FATE] if self.has_lookups else []
        ends = [RECORDS, ROUTED] if self.routes else [OUTPUT]
        failed = [FAILED] if self.may_fail else []
        return [USABLE, CAME, *topics, PARTITION, OFFSET, ORIGIN_HEADER, EVENT_TIME, *fates, *ends, *failed]

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {TALLIES: pa.list_(RECORD)}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        # Imported in the worker only: the driver tells nothing.
        from pyspark import TaskContext

        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty("sql.streaming.queryId")

        def tally(columns: Columns) -> Columns:
            count = len(columns[USABLE])
            records = self._records(columns, query or "no-query") if count else []
            last = pa.array([[None, *records]], pa.list_(RECORD))[:count]
            return {TALLIES: pa.concat_arrays([pa.nulls(count - len(last), last.type), last])}

        return tally

    def _records(self, columns: Columns, query: str) -> Sequence[Mapping[str, bytes]]:
        from enrich.tally import Node, NodeKind, Report, encoded, key_of
        from enrich.tally.origins import Read

        node = Node(self.pipeline, NodeKind.stage, self.stage)
        went_ms = time.time_ns() // 10**6
        offsets, own = columns[OFFSET].to_numpy(), self._own_places(columns)
        events = self._events(columns, own)
        made = []
        for (topic, partition), places in own.apart():
            # By these a repeated batch says the same id again: what it says counts once.
            reporter, sequence = f"{query}/{topic}/{partition}", int(offsets[places].min())
            reads = [Read(topic, partition, sequence, int(offsets[places].max()) + 1)]
            report = Report(node, reporter, sequence, went_ms, [*_tallies(events.at(places), went_ms)], reads)
            made += [{"key": key_of(report), "value": content} for content in encoded(report)]
        return made

    def _own_places(self, columns: Columns) -> "_Places":
        if self.topic is None:
            return _Places.of(columns[TOPIC], columns[PARTITION], columns[OFFSET])
        return _Places([self.topic], columns[PARTITION].to_numpy().astype(np.int64), columns[OFFSET].to_numpy())

    def _events(self, columns: Columns, own: "_Places") -> "_Events":
        is_dropped, is_dead = fates_of(columns)
        times, came_ms = columns[EVENT_TIME].to_numpy(), columns[CAME].to_numpy()
        origins = own.unless_named(columns[ORIGIN_HEADER])
        return _Events(origins, times, came_ms, is_dropped, is_dead, self._taken(columns))

    def _taken(self, columns: Columns) -> Mapping[str, Mask]:
        """Which events took each route."""
        if not self.routes:
            return {}
        records = columns[RECORDS]
        parents = np.repeat(np.arange(len(records)), np.diff(records.offsets.to_numpy()))
        taken = np.zeros((len(self.routes), len(records)), np.bool_)
        taken[records.flatten().field("route").to_numpy(), parents] = True
        return dict(zip(self.routes, taken & (columns[ROUTED].to_numpy() == Fate.FORWARD), strict=True))


@dataclass(frozen=True)
class _Events:
    """What became of the events of a batch, or of some."""

    origins: "_Places"
    times_ms: Numbers
    came_ms: Numbers
    is_dropped: Mask
    is_dead: Mask
    taken: Mapping[str, Mask]
    """By route."""

    def at(self, places: slice | Numbers) -> "_Events":
        return _Events(
            self.origins.at(places),
            self.times_ms[places],
            self.came_ms[places],
            self.is_dropped[places],
            self.is_dead[places],
            {route: mask[places] for route, mask in self.taken.items()},
        )


def _tallies(events: _Events, went_ms: int) -> Iterator["Tally"]:
    from enrich.tally import Lags, Tally

    is_gone = ~events.is_dropped & ~events.is_dead
    lags = Lags.of(events.times_ms, events.came_ms, went_ms)
    for minute, own in _by_minute(events.times_ms):
        masks = (own, own & is_gone, own & events.is_dropped, own & events.is_dead)
        came, went, dropped, dead = (events.origins.set_of(mask) for mask in masks)
        yield Tally("", minute, came, went, dropped, dead, lag=lags.of_minute(minute))
        for route, mask in events.taken.items():
            some = own & mask
            if some.any():
                yield Tally(route, minute, went=events.origins.set_of(some))


def _by_minute(times: Numbers) -> Iterator[tuple[int, Mask]]:
    minutes = times // 60_000
    if minutes.min() == minutes.max():
        yield int(minutes[0]), np.ones(len(minutes), np.bool_)
        return
    for minute in np.unique(minutes).tolist():
        yield minute, minutes == minute


@dataclass(frozen=True)
class _Places:
    """Where events are, or came in."""

    topics: Sequence[str]
    codes: Numbers
    """Of topic and partition: the topic's number in the upper 32 bits."""
    offsets: Numbers

    @classmethod
    def of(cls, topics: pa.StringArray, partitions: pa.Array, offsets: pa.Int64Array) -> "_Places":
        coded = topics.dictionary_encode()
        codes = coded.indices.to_numpy().astype(np.int64) << 32 | partitions.cast(pa.int64()).to_numpy()
        return cls(coded.dictionary.to_pylist(), codes, offsets.to_numpy())

    def unless_named(self, headers: pa.BinaryArray) -> "_Places":
        """Where the events came in: their headers say so, else it is their own place."""
        if headers.null_count == len(headers):
            return self
        found = pc.extract_regex(text_of(headers), ORIGIN_FORM)
        known = found.is_valid()
        topics = pc.if_else(known, found.field("topic"), pa.array(self.topics).take(pa.array(self.codes >> 32)))
        partitions = pc.if_else(known, number_of(found.field("partition"), known), pa.array(self.codes & _LOWER))
        offsets = pc.if_else(known, number_of(found.field("offset"), known), pa.array(self.offsets))
        return _Places.of(topics, partitions, offsets)

    def apart(self) -> Iterator[tuple[tuple[str, int], slice | Numbers]]:
        """The events of each partition: mostly there is one."""
        if self.codes.min() == self.codes.max():
            yield self._named(int(self.codes[0])), slice(None)
            return
        for code in np.unique(self.codes).tolist():
            yield self._named(code), np.flatnonzero(self.codes == code)

    def _named(self, code: int) -> tuple[str, int]:
        return self.topics[code >> 32], code & _LOWER

    def at(self, places: slice | Numbers) -> "_Places":
        return _Places(self.topics, self.codes[places], self.offsets[places])

    def set_of(self, mask: Mask) -> "Origins":
        from enrich.tally import Origins

        found, codes, chosen = Origins(), self.codes[mask], self.offsets[mask]
        if not len(codes):
            return found
        first = int(codes[0])
        if (codes == first).all():
            return self._in_one(first, chosen)
        for code in np.unique(codes).tolist():
            found |= self._in_one(code, chosen[codes == code])
        return found

    def _in_one(self, code: int, offsets: Numbers) -> "Origins":
        from enrich.tally import Origins

        topic, partition = self._named(code)
        # Mostly all events of a piece of the partition, in order: a range takes a hundredth of the time.
        if (np.diff(offsets) == 1).all():
            return Origins.of_ranges([(topic, partition, int(offsets[0]), int(offsets[-1]))])
        return Origins.of_offsets(topic, partition, offsets)
