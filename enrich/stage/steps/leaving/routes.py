"""Sends events on their routes: which records each makes, and what becomes of an event that makes none."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.joining import null_where
from enrich.stage.compute import Compiled
from enrich.stage.steps.computing import fields_of
from enrich.stage.steps.keyed import NO_KEY
from enrich.stage.steps.leaving.whole import forwarded
from enrich.stage.steps.step import Columns, Work
from enrich.stage.task.columns import (
    BESIDE,
    FATE,
    OUTPUT,
    PARTS,
    PROBLEM,
    PROBLEM_ROUTE,
    RECORDS,
    ROUTE_REPORT,
    ROUTED,
    USABLE,
)
from enrich.stage.task.columns import KEY as KEY_OF_EVENT
from enrich.stage.task.fate import Fate, Mask
from enrich.stage.task.pin import Pin
from stores.keys import key_bytes

if TYPE_CHECKING:
    from enrich.codecs.avro.encoding.writing import AvroWriter

Places = npt.NDArray[np.int64]
_NONE: Places = np.zeros(0, np.int64)

TOPIC, SELECTED, KEY = "topic", "selected", "key"
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
NO_VALUE = "its `select` has no value for the event"
NO_TOPIC = "its `topic_of` names none of its topics"
MISFIT = "a value in its `select` does not fit the Avro schema of its topic"
TOO_LARGE = "the record is too large for its topic"
TOO_MUCH = "its records are too large together"
MOST_OF_EVENT = 256 * 2**20
"""Bytes of all records that a route makes of one event. A list of many elements, each with the event's key and headers:
one event could ask for more memory than there is."""


def header_name(index: int) -> str:
    """The field of a route's parts that has the value of this header."""
    return f"header_{index}"


@dataclass(frozen=True)
class Computed:
    """The expressions of a route that workers evaluate themselves."""

    when: Compiled | None
    """None: every event takes the route."""
    values: Mapping[str, Compiled]
    """By `SELECTED`, `TOPIC`, `KEY` and the names of headers."""
    explode: str | None
    """The list whose elements make the records: the values are over an element in its place."""

    @property
    def needs(self) -> Collection[str]:
        lists = [] if self.explode is None else [self.explode]
        when = [] if self.when is None else [self.when]
        return list(dict.fromkeys([*lists, *fields_of([*when, *self.values.values()])]))


@dataclass(frozen=True)
class RouteSpec:
    """A route, for workers. What Spark evaluated of it is in the column `PARTS.of(name)`: a struct with `selected`,
    `topic`, `key` and the headers, as far as the route has them; a list of these if it explodes. It is null for an
    event that does not take the route."""

    name: str
    topics: Sequence[str]
    chooses_topic: bool = False
    explodes: bool = False
    selects: bool = False
    has_key: bool = False
    headers: Sequence[str] = ()
    most_bytes: Mapping[str, int] = field(default_factory=dict)
    """The largest record of each topic."""
    compacted: Collection[str] = ()
    """Its topics that take no record without a key."""
    is_condition: bool = True
    """False: it takes what no other route takes."""
    computed: Computed | None = None
    """None: Spark has evaluated it."""
    writers: "Mapping[str, AvroWriter]" = field(default_factory=dict)
    """How the objects are written for each topic; empty: as JSON."""

    @property
    def needs(self) -> Collection[str]:
        keys = [KEY_OF_EVENT] if self.compacted and not self.has_key else []
        return [*keys, *([PARTS.of(self.name)] if self.computed is None else self.computed.needs)]


@dataclass(frozen=True)
class TakeRoutes:
    routes: Sequence[RouteSpec]
    rest: Fate
    """What becomes of an event that takes no route."""
    has_lookups: bool

    @property
    def needs(self) -> Collection[str]:
        fates = [FATE] if self.has_lookups else []
        whole = [] if all(route.selects for route in self.routes) else [OUTPUT]
        own = (name for route in self.routes for name in route.needs)
        return list(dict.fromkeys([USABLE, BESIDE, *fates, *whole, *own]))

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {
            RECORDS: pa.list_(self.record),
            ROUTED: pa.int8(),
            PROBLEM: pa.string(),
            PROBLEM_ROUTE: pa.string(),
            ROUTE_REPORT: pa.string(),
        }

    @property
    def record(self) -> pa.StructType:
        fields = [pa.field("route", pa.int8()), pa.field("topic", pa.string()), pa.field("value", pa.binary())]
        if any(route.has_key for route in self.routes):
            fields.append(pa.field("key", pa.binary()))
        if any(route.headers for route in self.routes):
            fields.append(pa.field("headers", pa.list_(_HEADER)))
        return pa.struct(fields)

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        return self._taken

    def _taken(self, columns: Columns) -> Columns:
        left = forwarded(columns)
        count = len(left)
        untaken, problems = left.copy(), _Problems(count)
        taken: list[tuple[int, _Taken]] = []
        for is_rest in (False, True):  # those that take the rest come last, whatever their place
            for index, route in enumerate(self.routes):
                if route.is_condition is is_rest:
                    continue
                one = _take(route, columns, untaken if is_rest else left)
                untaken[one.asked] = False
                problems.note(route.name, one, columns[BESIDE].to_numpy(), route.most_bytes)
                taken.append((index, one))
        if self.rest == Fate.DLQ:
            problems.of_all(np.flatnonzero(untaken), None, "it takes none of the stage's routes")
        has_problem = problems.is_one
        whole = [(index, one.without(has_problem)) for index, one in sorted(taken, key=lambda each: each[0])]
        records, made = self._records(whole, count)
        routed = np.where(has_problem, Fate.DLQ, np.where(left & ~made, Fate.DROP, Fate.FORWARD)).astype(np.int8)
        counts = {self.routes[index].name: one.events for index, one in whole}
        report = pa.array([json.dumps(counts)][:count], pa.string())
        return {
            RECORDS: records,
            ROUTED: pa.array(routed),
            PROBLEM: problems.reasons(),
            PROBLEM_ROUTE: problems.routes(),
            ROUTE_REPORT: pa.concat_arrays([report, pa.nulls(count - len(report), pa.string())]),
        }

    def _records(self, taken: Sequence[tuple[int, "_Taken"]], count: int) -> tuple[pa.ListArray, Mask]:
        """The records of each event, in the order in which the routes are given; and which events make some."""
        kind = self.record
        parents = np.concatenate([one.parents for _, one in taken])
        routes = np.concatenate([np.full(len(one.parents), index, np.int8) for index, one in taken])
        # The records of each route are in the order of events already, so that a stable sort only joins them.
        order = pa.array(np.argsort(parents, kind="stable"))
        names = [each.name for each in kind]
        parts: dict[str, pa.Array] = {"route": pa.array(routes)}
        for name in names[1:]:
            pieces = [one.part(name).cast(kind.field(name).type) for _, one in taken]
            parts[name] = pa.concat_arrays(pieces)
        rows = pa.StructArray.from_arrays([parts[name].take(order) for name in names], fields=list(kind))
        sizes = np.bincount(parents, minlength=count)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), rows), sizes > 0


@dataclass(frozen=True)
class _Taken:
    """The records of one route."""

    route: RouteSpec
    asked: Places
    """The events that take it, also those that make no record."""
    parents: Places
    """The event of each record, ascending."""
    values: pa.BinaryArray
    topics: pa.StringArray
    keys: pa.BinaryArray | None
    headers: pa.ListArray | None
    misfits: Mask | None = None
    """The records whose value does not fit the schema of their topic."""
    keyless: Mask | None = None
    """The records without a key of topics that take none without."""
    too_much: Places = field(default_factory=lambda: _NONE)
    """The events of which no records are made, as they would be too large together."""

    @property
    def events(self) -> int:
        """How many events make a record."""
        return int(np.count_nonzero(np.diff(self.parents))) + 1 if len(self.parents) else 0

    def part(self, name: str) -> pa.Array:
        found = {"topic": self.topics, "value": self.values, "key": self.keys, "headers": self.headers}[name]
        return pa.nulls(len(self.parents)) if found is None else found

    def without(self, problematic: Mask) -> "_Taken":
        kept = ~problematic[self.parents]
        if kept.all():
            return self
        mask = pa.array(kept)
        keys = None if self.keys is None else self.keys.filter(mask)
        headers = None if self.headers is None else self.headers.filter(mask)
        parents, values, topics = self.parents[kept], self.values.filter(mask), self.topics.filter(mask)
        return _Taken(self.route, self.asked, parents, values, topics, keys, headers)


class _Problems:
    """The first problem of each event, in the order of the routes."""

    def __init__(self, count: int) -> None:
        self.is_one = np.zeros(count, np.bool_)
        self._reasons: dict[int, tuple[str | None, str]] = {}

    def of_all(self, places: Places, route: str | None, reason: str) -> None:
        if not len(places):
            return
        for place in places[~self.is_one[places]].tolist():
            self._reasons.setdefault(place, (route, reason))
        self.is_one[places] = True

    def note(self, route: str, taken: _Taken, beside: npt.NDArray[np.int64], most_bytes: Mapping[str, int]) -> None:
        if taken.misfits is not None:
            self.of_all(taken.parents[taken.misfits], route, MISFIT)
        self.of_all(taken.parents[_nulls(taken.values)], route, NO_VALUE)
        unknown = _nulls(taken.topics)
        self.of_all(taken.parents[unknown], route, NO_TOPIC)
        if taken.keyless is not None:
            self.of_all(taken.parents[taken.keyless], route, NO_KEY)
        sizes = _sizes(taken.values) + _sizes(taken.keys) + beside[taken.parents]
        if taken.headers is not None:
            sizes = sizes + _header_sizes(taken.headers)
        if taken.route.chooses_topic:
            largest = pa.array([most_bytes[topic] for topic in taken.route.topics])
            room = largest.take(pc.fill_null(pc.index_in(taken.topics, pa.array(taken.route.topics)), 0)).to_numpy()
        else:
            room = most_bytes[taken.route.topics[0]]
        self.of_all(taken.parents[sizes > room], route, TOO_LARGE)
        self.of_all(taken.too_much, route, TOO_MUCH)
        if taken.route.explodes:
            together = np.bincount(taken.parents, weights=sizes, minlength=1)
            self.of_all(np.flatnonzero(together > MOST_OF_EVENT), route, TOO_MUCH)

    def reasons(self) -> pa.StringArray:
        return self._texts([reason for _, reason in self._reasons.values()])

    def routes(self) -> pa.StringArray:
        return self._texts([route for route, _ in self._reasons.values()])

    def _texts(self, texts: Sequence[str | None]) -> pa.StringArray:
        column = pa.nulls(len(self.is_one), pa.string())
        if not texts:
            return column
        places = np.fromiter(self._reasons, np.int64)
        order = np.argsort(places)
        mask = np.zeros(len(self.is_one), np.bool_)
        mask[places] = True
        return pc.replace_with_mask(column, pa.array(mask), pa.array(texts, pa.string()).take(pa.array(order)))


def _take(route: RouteSpec, columns: Columns, left: Mask) -> _Taken:
    too_much = _NONE
    if route.computed is None:
        asked, parents, found = _evaluated(route, columns[PARTS.of(route.name)], left)
    else:
        asked, parents, found, too_much = _computed(route, route.computed, columns, left)
    if route.chooses_topic:
        named = found[TOPIC].cast(pa.string())
        topics = pc.if_else(pc.is_in(named, pa.array(route.topics)), named, pa.scalar(None, pa.string()))
    else:
        topics = pa.repeat(pa.scalar(route.topics[0]), len(parents))
    misfits = None
    if route.writers:
        values, misfits = _avro(route.writers, found[SELECTED], topics)
    else:
        values = _bytes(found[SELECTED]) if route.selects else columns[OUTPUT].take(pa.array(parents))
    keys = key_bytes(found[KEY]) if route.has_key else None
    headers = _headers(route.headers, found, len(parents)) if route.headers else None
    keyless = None
    if route.compacted:
        keyless = _nulls(columns[KEY_OF_EVENT])[parents] if keys is None else _nulls(keys)
        keyless &= pc.is_in(topics, pa.array(route.compacted)).to_numpy(zero_copy_only=False)
    return _Taken(route, asked, parents, values, topics, keys, headers, misfits, keyless, too_much)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _evaluated(route: RouteSpec, parts: pa.Array, left: Mask) -> tuple[Places, Places, Columns]:
    """The events that take the route, the event of each record, and the records' values."""
    asked = np.flatnonzero(left & ~_nulls(parts))
    parts = parts.take(pa.array(asked))
    parents = asked
    if route.explodes:
        parents = asked[pc.list_parent_indices(parts).to_numpy()]
        parts = parts.flatten()
    names = [each.name for each in parts.type]
    return asked, parents, dict(zip(names, parts.flatten(), strict=True))


def _computed(
    route: RouteSpec, computed: Computed, columns: Columns, left: Mask
) -> tuple[Places, Places, Columns, Places]:
    """The same for a route whose expressions are evaluated here: only for the events that take it. And those that would
    become too much, of which nothing is made."""
    if computed.when is not None:
        holds = computed.when.evaluate(columns, len(left)).fill_null(False)
        left = left & holds.to_numpy(zero_copy_only=False)
    asked = np.flatnonzero(left)
    own = {name: columns[name] for name in computed.needs}
    if len(asked) < len(left):
        own = {name: column.take(pa.array(asked)) for name, column in own.items()}
    parents, too_much = asked, _NONE
    if computed.explode is not None:
        lists = own.pop(computed.explode)
        whole = [] if route.selects else [columns[OUTPUT].take(pa.array(asked))]
        heavy = _is_too_much(lists, columns[BESIDE].to_numpy()[asked], [*own.values(), *whole])
        if heavy.any():
            too_much = asked[heavy]
            lists = pc.if_else(pa.array(heavy), pa.scalar(None, lists.type), lists)
        places = pc.list_parent_indices(lists)
        parents = asked[places.to_numpy()]
        own = {name: column.take(places) for name, column in own.items()} | {computed.explode: lists.flatten()}
    found = {name: each.evaluate(own, len(parents)) for name, each in computed.values.items()}
    return asked, parents, found, too_much


def _is_too_much(lists: pa.ListArray, beside: npt.NDArray[np.int64], columns: Sequence[pa.Array]) -> Mask:
    """Whether what each record has would be too large together, once for each element of the event's list."""
    each = beside + sum(_sizes(column) for column in columns if _is_bytes(column.type))
    is_one: Mask = pc.fill_null(pc.list_value_length(lists), 0).to_numpy() * each > MOST_OF_EVENT
    return is_one


def _bytes(values: pa.Array) -> pa.BinaryArray:
    # Imported in the worker only: the driver writes no JSON.
    from enrich.stage.events.text import json_text

    kind = values.type
    if _is_bytes(kind):
        return values.cast(pa.binary())
    return null_where(values, json_text(values))


def _avro(
    writers: "Mapping[str, AvroWriter]", objects: pa.StructArray, topics: pa.StringArray
) -> tuple[pa.BinaryArray, Mask]:
    """And which objects do not fit the schema of their topic."""
    # Those that have no topic are told by that.
    made = pc.if_else(pc.and_(objects.is_valid(), topics.is_null()), b"", pa.scalar(None, pa.binary()))
    for topic, writer in writers.items():
        own = pc.fill_null(pc.equal(topics, topic), False)
        if own.true_count:
            made = pc.replace_with_mask(made, own, writer.write(objects.filter(own)))
    return made, _nulls(made) & ~_nulls(objects)


def _headers(names: Sequence[str], found: Mapping[str, pa.Array], count: int) -> pa.ListArray:
    """Those whose value is not null."""
    values = [found[header_name(index)].cast(pa.binary()) for index in range(len(names))]
    each = np.arange(count * len(names)).reshape(len(names), count).T.ravel()
    keys = pa.concat_arrays([pa.repeat(pa.scalar(name), count) for name in names]).take(pa.array(each))
    content = pa.concat_arrays(values).take(pa.array(each))
    there = ~_nulls(content)
    rows = pa.StructArray.from_arrays([keys, content], fields=list(_HEADER)).filter(pa.array(there))
    sizes = there.reshape(count, len(names)).sum(axis=1)
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)), rows)


def _sizes(values: pa.BinaryArray | None) -> npt.NDArray[np.int64]:
    if values is None:
        return np.zeros(1, np.int64)
    return np.asarray(pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False), np.int64)


def _header_sizes(headers: pa.ListArray) -> npt.NDArray[np.int64]:
    rows = headers.flatten()
    sizes = _sizes(rows.field(0)) + _sizes(rows.field(1)) + 10
    parents = pc.list_parent_indices(headers).to_numpy()
    return np.bincount(parents, weights=sizes, minlength=len(headers)).astype(np.int64)


def _nulls(values: pa.Array) -> Mask:
    return np.array(values.is_null().to_numpy(zero_copy_only=False), np.bool_)
