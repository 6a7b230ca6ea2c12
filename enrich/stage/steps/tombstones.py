"""Records without a value: they go on as such, or are dropped, where they would else be dead letters."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.steps.keyed import NO_KEY
from enrich.stage.steps.leaving.routes import TOO_LARGE
from enrich.stage.steps.step import Columns, Work
from enrich.stage.task.columns import (
    BESIDE,
    KEY,
    PROBLEM,
    PROBLEM_ROUTE,
    RECORDS,
    ROUTE_REPORT,
    ROUTED,
    USABLE,
    VALUE,
)
from enrich.stage.task.fate import Fate
from enrich.stage.task.pin import Pin


@dataclass(frozen=True)
class TakeTombstones:
    """Comes behind the routes, and changes what they made of tombstones."""

    routes: Sequence[str]
    topics: Mapping[int, Sequence[str]]
    """By the number of each route that takes them: all of its topics, since a row may have gone to any of them. Empty:
    they are dropped."""
    record: pa.StructType
    most_bytes: Mapping[int, int]
    """The largest record that all topics of each of these routes take."""
    keyed_by: str | None = None
    """The first of these routes with a topic that takes no record without a key."""

    @property
    def needs(self) -> Collection[str]:
        problems = [BESIDE, PROBLEM, PROBLEM_ROUTE] if self.topics else []
        keys = [] if self.keyed_by is None else [KEY]
        return [VALUE, USABLE, RECORDS, ROUTED, ROUTE_REPORT, *problems, *keys]

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        problems = {PROBLEM: pa.string(), PROBLEM_ROUTE: pa.string()} if self.topics else {}
        made = {USABLE: pa.bool_(), RECORDS: pa.list_(self.record), ROUTED: pa.int8(), ROUTE_REPORT: pa.string()}
        return made | problems

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        return self._taken

    def _taken(self, columns: Columns) -> Columns:
        are_some = columns[VALUE].is_null()
        if not are_some.true_count:
            return {}
        fate = Fate.FORWARD if self.topics else Fate.DROP
        made = {
            USABLE: pc.or_(columns[USABLE], are_some),
            ROUTED: pc.if_else(are_some, pa.scalar(fate, pa.int8()), columns[ROUTED]),
        }
        if not self.topics:
            return made
        made |= {name: columns[name] for name in (PROBLEM, PROBLEM_ROUTE)}
        for which, reason, route in self._kept_back(columns):
            own = pc.and_(are_some, which)
            are_some = pc.and_not(are_some, which)
            for name, instead in {
                ROUTED: pa.scalar(Fate.DLQ, pa.int8()),
                PROBLEM: reason,
                PROBLEM_ROUTE: route,
            }.items():
                made[name] = pc.if_else(own, instead, made[name])
        return made | {
            RECORDS: self._records(columns[RECORDS], are_some),
            ROUTE_REPORT: self._report(columns, are_some),
        }

    def _kept_back(self, columns: Columns) -> Iterator[tuple[pa.BooleanArray, str, str]]:
        """The events that brokers would refuse as tombstones, at each repetition; why, and for which route."""
        if self.keyed_by is not None:
            yield columns[KEY].is_null(), NO_KEY, self.keyed_by
        tightest = min(self.most_bytes, key=self.most_bytes.__getitem__)
        yield pc.greater(columns[BESIDE], self.most_bytes[tightest]), TOO_LARGE, self.routes[tightest]

    def _records(self, records: pa.ListArray, are_some: pa.BooleanArray) -> pa.ListArray:
        """Tombstones have made none so far: all of them get the same."""
        each = [{"route": route, "topic": topic} for route, topics in self.topics.items() for topic in topics]
        places = np.flatnonzero(are_some.to_numpy(zero_copy_only=False))
        sizes = np.diff(records.offsets.to_numpy())
        before = pa.concat_arrays([records.flatten(), pa.array(each, self.record)])
        sources = np.arange(len(records.flatten()))
        at = np.cumsum(sizes)[places]
        new = np.tile(np.arange(len(each)) + len(sources), len(places))
        sources = np.insert(sources, np.repeat(at, len(each)), new)
        sizes[places] = len(each)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), before.take(pa.array(sources)))

    def _report(self, columns: Columns, are_some: pa.BooleanArray) -> pa.StringArray:
        """How many events took each route stands with the first event."""
        report = columns[ROUTE_REPORT]
        counts = json.loads(report[0].as_py())
        for index in self.topics:
            counts[self.routes[index]] += are_some.true_count
        return pa.concat_arrays([pa.array([json.dumps(counts)]), report.slice(1)])
