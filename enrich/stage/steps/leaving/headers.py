"""What the steps of a stage need of the headers of its events; and the headers that an event has when it leaves."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.kafka.columnar.records import HEADERS as KIND
from enrich.kafka.identity import EVENT_TIME as EVENT_TIME_NAME
from enrich.kafka.identity import ORIGIN, PASSED_ON, RELEASE
from enrich.stage.steps.leaving.lists import Part, Places, joined
from enrich.stage.steps.step import Columns, Work
from enrich.stage.task.columns import (
    BESIDE,
    HEADERS,
    KEY,
    OFFSET,
    ORIGIN_HEADER,
    PARTITION,
    TIME,
    TIME_HEADER,
    TIMESTAMP,
    TOPIC,
)
from enrich.stage.task.fate import Mask
from enrich.stage.task.pin import Pin

OVERHEAD = 512
"""Bytes of a record beside its key, value and the event's headers; with the headers that `with_identity` adds."""
_EACH = 10
ORIGIN_FORM = r"^(?P<topic>[A-Za-z0-9._-]{1,249})/(?P<partition>0|[1-9][0-9]{0,8})/(?P<offset>0|[1-9][0-9]{0,17})\z"
"""As Arrow understands it: what an event brings as its origin, and what is not so, is none."""
_NUMBER = re.compile(rb"\s*[+-]?[0-9]{1,18}\s*")


@dataclass(frozen=True)
class TakeHeaders:
    """The first step of stages whose workers read records themselves; elsewhere Spark evaluates the same."""

    is_masked: bool
    """Whether headers that nobody has classified are left out."""
    needs: Collection[str] = (HEADERS, KEY)

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {HEADERS: KIND, BESIDE: pa.int32(), TIME_HEADER: pa.binary(), ORIGIN_HEADER: pa.binary()}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        return self._taken

    def _taken(self, columns: Columns) -> Columns:
        headers, count = columns[HEADERS], len(columns[KEY])
        keys = pc.fill_null(pc.binary_length(columns[KEY]), 0)
        if not len(headers.flatten()):
            none = pa.nulls(count, pa.binary())
            return {HEADERS: headers, BESIDE: pc.add(keys, OVERHEAD), TIME_HEADER: none, ORIGIN_HEADER: none}
        if self.is_masked:
            headers = _only(headers, PASSED_ON)
        part = Part.of_lists(headers)
        lengths = [pc.fill_null(pc.binary_length(part.headers.field(name)), 0).to_numpy() for name in ("key", "value")]
        sizes = np.bincount(part.events, weights=lengths[0] + lengths[1] + _EACH, minlength=count)
        beside = pc.add(keys, pa.array((sizes + OVERHEAD).astype(np.int32)))
        first = {name: _first(part, name, count) for name in (EVENT_TIME_NAME, ORIGIN)}
        return {HEADERS: headers, BESIDE: beside, TIME_HEADER: first[EVENT_TIME_NAME], ORIGIN_HEADER: first[ORIGIN]}


def with_identity(columns: Columns, release: int) -> pa.ListArray:
    """The headers of each event with its origin, which is its own place, and its time, unless it brings them from an
    earlier node; and the release, unless it is 0 or the event brings a higher one.

    The origin comes first: of several each node takes the first good one."""
    headers, count = columns[HEADERS], len(columns[KEY])
    values = {ORIGIN: places(columns), EVENT_TIME_NAME: _times(columns)}
    if release:
        values[RELEASE] = pa.repeat(pa.scalar(str(release).encode(), pa.binary()), count)
    everybody = np.arange(count)
    if not len(headers.flatten()):
        return joined([Part.named(name, everybody, contents) for name, contents in values.items()], count)
    brought = Part.of_lists(headers)
    brings = {ORIGIN: _brings_origin(brought, count), EVENT_TIME_NAME: _has(brought, EVENT_TIME_NAME, count)}
    if release:
        brings[RELEASE] = _brings_higher(brought, release, count)
    first, *others = (
        Part.named(name, without := np.flatnonzero(~brings[name]), contents.take(pa.array(without)))
        for name, contents in values.items()
    )
    return joined([first, brought, *others], count)


def places(columns: Columns) -> pa.BinaryArray:
    """The own place of each event: topic/partition/offset."""
    numbers = [columns[name].cast(pa.string()) for name in (PARTITION, OFFSET)]
    return pc.binary_join_element_wise(columns[TOPIC].cast(pa.string()), *numbers, "/").cast(pa.binary())


def _times(columns: Columns) -> pa.BinaryArray:
    from stores.keys import milliseconds

    times = milliseconds(columns[TIMESTAMP])
    if TIME in columns:
        times = pc.coalesce(milliseconds(columns[TIME]), times)
    return times.cast(pa.string()).cast(pa.binary())


def _only(headers: pa.ListArray, names: Collection[str]) -> pa.ListArray:
    part = Part.of_lists(headers)
    kept = pc.is_in(part.headers.field("key"), pa.array([name.encode() for name in names], pa.binary()))
    places_ = np.flatnonzero(kept.to_numpy(zero_copy_only=False))
    return joined([Part(part.events[places_], part.headers.take(pa.array(places_)))], len(headers))


def _named(part: Part, name: str) -> Places:
    return np.flatnonzero(pc.equal(part.headers.field("key"), name.encode()).to_numpy(zero_copy_only=False))


def _has(part: Part, name: str, count: int) -> Mask:
    has = np.zeros(count, np.bool_)
    has[part.events[_named(part, name)]] = True
    return has


def _first(part: Part, name: str, count: int) -> pa.BinaryArray:
    """The value of the first header of this name; null without one."""
    found = _named(part, name)
    events, firsts = np.unique(part.events[found], return_index=True)
    at = np.full(count, -1)
    at[events] = found[firsts]
    return part.headers.field("value").take(pa.array(at, mask=at < 0))


def _brings_origin(part: Part, count: int) -> Mask:
    firsts = _first(part, ORIGIN, count)
    has: Mask = pc.fill_null(pc.match_substring_regex(firsts, ORIGIN_FORM), False).to_numpy(zero_copy_only=False)
    return has


def _brings_higher(part: Part, release: int, count: int) -> Mask:
    texts = _first(part, RELEASE, count)
    # Spark's cast to a number leaves out white space around it.
    found = [_number(text) for text in texts.to_pylist()] if texts.null_count < count else [None] * count
    return np.array([number is not None and number >= release for number in found], np.bool_)


def _number(text: bytes | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None
