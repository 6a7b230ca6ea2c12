"""The bytes of a report, as they are in the topic: see docs/tallies.md, which must be changed with this.

A sparse set takes what Roaring makes of it, a range a few bytes. Sets that follow from the others are left out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntFlag
from functools import reduce

import numpy as np
from pyroaring import BitMap64

from enrich.tally.histogram import BUCKETS, Histogram
from enrich.tally.lags import NO_LAG, Lag
from enrich.tally.origins import MOST_OFFSET, Origins, Place, Read, is_range
from enrich.tally.report import NOWHERE, Node, NodeKind, Report, Tally
from enrich.tally.wire import Malformed, Reader, Written

VERSION = 1
_MAGIC = 0x54
MOST_BYTES = 800_000
"""Of a record: what all brokers take by default, with room for its head."""
_MOST_CONTAINERS = 1 << 18
"""Parts of 65,536 offsets that the ranges of a record may span together: few bytes could ask for any memory."""
_MOST_PARTITION = 2**31 - 1
_RANGE, _BITMAP = 0, 1
_KINDS = frozenset(map(int, NodeKind))
_MOST_NAME = 1_000


class _Has(IntFlag):
    minute = 1
    came_is_rest = 2
    """It is all that went, was dropped, is dead or waits."""
    went_is_rest = 4
    """It is what came and was not dropped, is not dead and does not wait."""
    lag = 8


def key_of(report: Report) -> bytes:
    """Of its record: all that a reporter says is in one partition, in its order."""
    node = report.node
    return f"{node.kind.name}/{node.name}/{report.reporter}".encode()


def encoded(report: Report, most: int = MOST_BYTES) -> Sequence[bytes]:
    """One record, or several if it would be longer than `most`: reports with the same id, each with a part of it."""
    keys = [(tally.route, tally.minute) for tally in report.tallies if tally.lag]
    if len(set(keys)) < len(keys):
        raise ValueError("a report says twice how late the events of a route and minute were")
    whole = _encoded(report)
    if len(whole) <= most:
        return [whole]
    # Routes are said first: an event that went, and by none that one has heard of, has gone elsewhere.
    tallies = sorted(report.tallies, key=lambda tally: not tally.route)
    parts = [_encoded(replace(report, tallies=some, reads=())) for some in _split(report, tallies, most)]
    # What has been read is said last: whoever hears of it has heard all that was reported of it.
    return [*parts, _encoded(replace(report, tallies=()))]


def decoded(content: bytes) -> Report:
    """Raises Malformed, a BadRecord, for whatever is not a report."""
    reader = Reader(content)
    if reader.byte() != _MAGIC:
        raise reader.malformed("it does not begin as one")
    version = reader.byte()
    if version != VERSION:
        raise reader.malformed(f"its version is {version}, and this release reads {VERSION}")
    pipeline, kind, name, reporter = _name(reader), reader.byte(), _name(reader), _name(reader)
    if kind not in _KINDS:
        raise reader.malformed(f"there is no kind of node {kind}")
    node = Node(pipeline, NodeKind(kind), name)
    sequence, at_ms = reader.number(), reader.number()
    topics = [_name(reader) for _ in range(reader.count())]
    room = _Room()
    reads = [_read(reader, topics, room) for _ in range(reader.count(4))]
    tallies = [_tally(reader, topics, room) for _ in range(reader.count(7))]
    reader.end()
    late = [(tally.route, tally.minute) for tally in tallies if tally.lag]
    if len(set(late)) < len(late):
        raise reader.malformed("it says twice how late the events of a route and minute were")
    return Report(node, reporter, sequence, at_ms, tallies, reads)


# Writing.


def _encoded(report: Report) -> bytes:
    out, node, topics = Written(), report.node, dict[str, int]()
    out.byte(_MAGIC)
    out.byte(VERSION)
    out.text(node.pipeline)
    out.byte(node.kind)
    out.text(node.name)
    out.text(report.reporter)
    out.number(report.sequence)
    out.number(report.at_ms)
    body = Written()
    body.number(len(report.reads))
    for read in report.reads:
        for number in (_index(topics, read.topic), read.partition, read.first, read.following - read.first):
            body.number(number)
    body.number(len(report.tallies))
    for tally in report.tallies:
        _write_tally(body, tally, topics)
    out.number(len(topics))
    for topic in topics:
        out.text(topic)
    return bytes(out.content + body.content)


def _index(topics: dict[str, int], topic: str) -> int:
    return topics.setdefault(topic, len(topics))


def _write_tally(out: Written, tally: Tally, topics: dict[str, int]) -> None:
    has = _Has(0)
    exceptions = tally.dropped | tally.dead | tally.waiting
    if tally.came and tally.came == tally.went | exceptions:
        has |= _Has.came_is_rest
    elif tally.went and tally.went == tally.came - exceptions:
        has |= _Has.went_is_rest
    if tally.minute is not None:
        has |= _Has.minute
    if tally.lag:
        has |= _Has.lag
    out.byte(has)
    out.text(tally.route)
    if tally.minute is not None:
        out.signed(tally.minute)
    _write_origins(out, NOWHERE if has & _Has.came_is_rest else tally.came, topics)
    _write_origins(out, NOWHERE if has & _Has.went_is_rest else tally.went, topics)
    for some in (tally.dropped, tally.dead, tally.waiting):
        _write_origins(out, some, topics)
    if tally.lag:
        _write_lag(out, tally.lag)


def _write_origins(out: Written, origins: Origins, topics: dict[str, int]) -> None:
    out.number(len(origins.by_place))
    for (topic, partition), some in origins.by_place.items():
        out.number(_index(topics, topic))
        out.number(partition)
        if is_range(some):
            out.byte(_RANGE)
            out.number(some.min())
            out.number(len(some) - 1)
        else:
            out.byte(_BITMAP)
            some = some.copy()
            some.run_optimize()
            out.bytes(some.serialize())


def _write_lag(out: Written, lag: Lag) -> None:
    for histogram in (lag.came, lag.went, lag.took):
        out.number(len(histogram.counts))
        out.number(histogram.start)
        out.number(histogram.clamped)
        for count in histogram.counts.tolist():
            out.number(count)


def encoded_lag(lag: Lag) -> bytes:
    """As it is in a tally, alone."""
    out = Written()
    _write_lag(out, lag)
    return bytes(out.content)


def decoded_lag(content: bytes) -> Lag:
    """Raises Malformed for what is none."""
    reader = Reader(content)
    lag = _lag(reader)
    reader.end()
    return lag


def _split(report: Report, tallies: Sequence[Tally], most: int) -> Iterator[Sequence[Tally]]:
    if not tallies:
        return
    if len(_encoded(replace(report, tallies=tallies, reads=()))) <= most:
        yield tallies
    elif len(tallies) > 1:
        middle = len(tallies) // 2
        yield from _split(report, tallies[:middle], most)
        yield from _split(report, tallies[middle:], most)
    else:
        halves = _halves(tallies[0])
        if not halves:  # nothing that could be divided is so long: whoever takes it may take it as it is
            yield tallies
        for half in halves:
            yield from _split(report, [half], most)


def _halves(tally: Tally) -> Sequence[Tally]:
    """The first has the lower half of the origins, and the lags, the second the rest. None if there are not two."""
    sets = (tally.came, tally.went, tally.dropped, tally.dead, tally.waiting)
    every = reduce(Origins.__or__, sets)
    if len(every) < 2:
        return []
    places = sorted(every.by_place)
    if len(places) > 1:
        chosen = set(places[: len(places) // 2])
        lower = [Origins({p: b for p, b in some.by_place.items() if p in chosen}) for some in sets]
    else:
        bitmap = every.by_place[places[0]]
        below = Origins({places[0]: bitmap[: len(bitmap) // 2]})  # as a range it might take all memory
        lower = [some & below for some in sets]
    upper = [some - low for some, low in zip(sets, lower, strict=True)]
    return [
        Tally(tally.route, tally.minute, *_five(lower), tally.lag),
        Tally(tally.route, tally.minute, *_five(upper)),
    ]


def _five(sets: Sequence[Origins]) -> tuple[Origins, Origins, Origins, Origins, Origins]:
    came, went, dropped, dead, waiting = sets
    return came, went, dropped, dead, waiting


# Reading.


class _Room:
    """What the ranges of a record may still span."""

    def __init__(self) -> None:
        self.containers = _MOST_CONTAINERS

    def take(self, length: int, reader: Reader) -> None:
        self.containers -= (length >> 16) + 1
        if self.containers < 0:
            raise reader.malformed("its ranges are longer than a record's may be")


def _name(reader: Reader) -> str:
    name = reader.text()
    if len(name) > _MOST_NAME:
        raise reader.malformed("a name is too long")
    return name


def _topic(reader: Reader, topics: Sequence[str]) -> str:
    index = reader.number()
    if index >= len(topics):
        raise reader.malformed(f"it has no topic {index}")
    return topics[index]


def _read(reader: Reader, topics: Sequence[str], room: _Room) -> Read:
    topic, partition = _topic(reader, topics), reader.number(_MOST_PARTITION)
    first = reader.number(MOST_OFFSET)
    length = reader.number(MOST_OFFSET - first)
    room.take(length, reader)
    return Read(topic, partition, first, first + length)


def _tally(reader: Reader, topics: Sequence[str], room: _Room) -> Tally:
    flags = reader.byte()
    if flags >= 16 or flags & 6 == 6:
        raise reader.malformed(f"it has unknown flags {flags:#x}")
    has = _Has(flags)
    route = _name(reader)
    minute = reader.signed() if has & _Has.minute else None
    came, went, dropped, dead, waiting = [_origins(reader, topics, room) for _ in range(5)]
    if has & _Has.came_is_rest:
        came = came | went | dropped | dead | waiting
    if has & _Has.went_is_rest:
        went = went | came - (dropped | dead | waiting)
    lag = _lag(reader) if has & _Has.lag else NO_LAG
    return Tally(route, minute, came, went, dropped, dead, waiting, lag)


def _origins(reader: Reader, topics: Sequence[str], room: _Room) -> Origins:
    by_place: dict[Place, BitMap64] = {}
    for _ in range(reader.count(4)):
        place = _topic(reader, topics), reader.number(_MOST_PARTITION)
        some = _bitmap(reader, room)
        by_place[place] = by_place[place] | some if place in by_place else some
    return Origins(by_place)


def _bitmap(reader: Reader, room: _Room) -> BitMap64:
    form = reader.byte()
    if form == _RANGE:
        first = reader.number(MOST_OFFSET)
        length = reader.number(MOST_OFFSET - first)
        room.take(length, reader)
        found = BitMap64()
        found.add_range(first, first + length + 1)
        return found
    if form != _BITMAP:
        raise reader.malformed(f"there is no form {form} of a set")
    content = reader.bytes()
    return _checked(content, reader.malformed)


def _checked(content: bytes, malformed: Callable[[str], Malformed]) -> BitMap64:
    try:
        found = BitMap64.deserialize(content)
    except (ValueError, IndexError) as error:
        raise malformed(f"a set cannot be read: {error}") from error
    if not found or found.max() > MOST_OFFSET or len(found.serialize()) != len(content):
        raise malformed("a set has no offsets, too large ones, or bytes too many")
    return found


def _lag(reader: Reader) -> Lag:
    return Lag(*[_histogram(reader) for _ in range(3)])


def _histogram(reader: Reader) -> Histogram:
    length = reader.count()
    start, clamped = reader.number(BUCKETS), reader.number()
    if start + length > BUCKETS:
        raise reader.malformed(f"a histogram has {start + length} buckets")
    counts = np.array(reader.numbers(length, 2**53), np.int64)
    return Histogram.trimmed(start, counts, clamped)
