"""The records that a batch of events becomes, for stages whose workers write them: the same that `plan/plan.py` has
Spark make. A test compares both, record by record."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import BadRecord
from enrich.kafka.columnar.records import HEADERS as HEADERS_KIND
from enrich.kafka.columnar.records import Records
from enrich.kafka.writing.dead_letters import LARGEST_VALUE
from enrich.stage.steps.leaving.fates import fates_of
from enrich.stage.steps.leaving.headers import places, with_identity
from enrich.stage.steps.leaving.lists import Part, joined
from enrich.stage.steps.leaving.why import Why
from enrich.stage.steps.step import Columns, Operator
from enrich.stage.task.columns import (
    BESIDE,
    FATE,
    HEADERS,
    KEY,
    OFFSET,
    OUTPUT,
    PARTITION,
    PROBLEM,
    PROBLEM_ROUTE,
    RECORDS,
    TALLIES,
    TOPIC,
    USABLE,
    VALUE,
)
from enrich.stage.task.fate import Fate, Mask
from enrich.stage.task.spec import DECIDED_BY, STATUS
from stores.table import Status

OWN_BYTES = 2_048
"""Size of a dead letter's own key and headers, without the event's key."""
LONGEST_KEY = 65_536
TOO_LARGE = "the enriched event is too large for the sink"
_STATUSES = [status.name.lower() for status in Status]


@dataclass(frozen=True)
class Letters:
    """How events become dead letters."""

    topic: str | None
    """None: the first event that cannot be processed ends the stage."""
    stage: str
    sender: str
    """pipeline.stage"""
    source_ids: Mapping[str, str]
    """See `Sender`."""
    largest: int
    why: Why
    lookups: Sequence[tuple[str, str]]
    """Name and table of each."""
    is_masked: bool


@dataclass(frozen=True)
class Leaving:
    """It travels pickled."""

    output: str | None
    """The topic of all events; None: they take routes."""
    keyed: Sequence[int]
    """The routes whose records have keys of their own."""
    letters: Letters
    tallies: str | None
    release: int

    def records(self, columns: Columns) -> Sequence[Records]:
        """Those of one topic stand in the events' order. Raises BadRecord for an event that cannot be processed, if
        there is no DLQ."""
        dropped, dead = fates_of(columns)
        made = [self._written(columns, ~dropped & ~dead), self._letters(columns, dead), self._tallies(columns)]
        return [each for each in made if each is not None and len(each)]

    def _written(self, columns: Columns, left: Mask) -> Records | None:
        if not left.any():
            return None
        identity = with_identity(columns, self.release)
        if self.output is None:
            return self._routed(columns, left, identity)
        keys, values = columns[KEY], columns[OUTPUT]
        if not left.all():
            whole = pa.array(np.flatnonzero(left))
            keys, values, identity = keys.take(whole), values.take(whole), identity.take(whole)
        return Records.of(self.output, keys, values, identity)

    def _routed(self, columns: Columns, left: Mask, identity: pa.ListArray) -> Records:
        lists = columns[RECORDS]
        if not left.all():
            lists = pc.if_else(pa.array(left), lists, pa.scalar(None, lists.type))
        parents, rows = pc.list_parent_indices(lists), lists.flatten()
        encoded = rows.field("topic").dictionary_encode()
        keys, headers = columns[KEY].take(parents), identity.take(parents)
        names = [each.name for each in rows.type]
        if "key" in names:
            own = pc.is_in(rows.field("route"), pa.array(self.keyed, pa.int8()))
            keys = pc.if_else(own, rows.field("key"), keys)
        if "headers" in names:
            own_lists = rows.field("headers").cast(HEADERS_KIND)
            headers = joined([Part.of_lists(headers), Part.of_lists(own_lists)], len(rows))
        topics = encoded.dictionary.to_pylist()
        return Records(topics, encoded.indices.to_numpy(), keys, rows.field("value"), headers)

    def _tallies(self, columns: Columns) -> Records | None:
        if self.tallies is None:
            return None
        rows = columns[TALLIES].flatten().drop_null()
        none = pa.array([[]] * len(rows), HEADERS_KIND)
        return Records.of(self.tallies, rows.field("key"), rows.field("value"), none)

    def _letters(self, columns: Columns, dead: Mask) -> Records | None:
        if not dead.any():
            return None
        events = _Dead(columns, np.flatnonzero(dead), self.letters)
        if self.letters.topic is None:
            raise events.failure()
        keys, values, headers = zip(*events.letters(), strict=True)
        rows = [[{"key": name, "value": content} for name, content in each] for each in headers]
        kinds = (pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(rows, HEADERS_KIND))
        return Records.of(self.letters.topic, *kinds)


@dataclass(frozen=True)
class WorkerPlan:
    """A stage without the JVM: from the columns of records that came to records that leave. It travels pickled."""

    operator: Operator
    leaving: Leaving
    may_wait: bool
    """Whether events may have to wait for their rows: then the work of a piece may raise NotYet."""


class _Dead:
    """The events of a batch that cannot be processed. They are few, or else their senders pay for it."""

    def __init__(self, columns: Columns, which: "np.ndarray[tuple[int], np.dtype[np.intp]]", letters: Letters) -> None:
        self._of, self._count = letters, len(which)
        own = pa.array(which)
        self._columns = {
            name: column.take(own)
            for name, column in columns.items()
            if name in _NEEDED or name in (f"_{DECIDED_BY}", f"_{STATUS}")
        }
        # As Spark says it: whatever a lookup has decided, an event that could not be read says so.
        self._usable = self._columns[USABLE].to_pylist()
        self._fates = self._listed(FATE, Fate.FORWARD)
        self._decided = self._listed(f"_{DECIDED_BY}", None)
        self._statuses = self._listed(f"_{STATUS}", None)
        self._routes = self._listed(PROBLEM_ROUTE, None)
        self._problems = self._listed(PROBLEM, None)
        self._values = self._columns[VALUE].to_pylist()

    def failure(self) -> BadRecord:
        place = places({name: column.slice(0, 1) for name, column in self._columns.items()})[0].as_py().decode()
        return BadRecord(
            f"an event cannot be processed, and the stage has no DLQ: {self._reason(0)}",
            where=f"topic/partition/offset {place}",
            next_step="give the stage a dlq",
        )

    def letters(self) -> Iterator[tuple[bytes, bytes, list[tuple[bytes, bytes | None]]]]:
        """Key, value and headers of each."""
        keys, beside = self._columns[KEY].to_pylist(), self._columns[BESIDE].to_pylist()
        topics = self._columns[TOPIC].to_pylist()
        numbers = [[str(n).encode() for n in self._columns[name].to_pylist()] for name in (PARTITION, OFFSET)]
        theirs, own_places = self._columns[HEADERS].to_pylist(), places(self._columns).to_pylist()
        for at in range(self._count):
            room = self._of.largest - OWN_BYTES - beside[at]
            # If the event's headers leave no room for a value they are left out.
            brought = [(each["key"], each["value"]) for each in theirs[at]] if room > 0 else []
            left_out = len(theirs[at]) - len(brought)
            if room <= 0:
                room = max(0, self._of.largest - OWN_BYTES - LONGEST_KEY)
            value, key = self._values[at] or b"", keys[at]
            own = {
                b"enrich.reason": self._reason(at).encode(),
                b"enrich.stage": self._of.stage.encode(),
                b"enrich.lookup": self._lookup(at),
                b"enrich.route": None if self._routes[at] is None else self._routes[at].encode(),
                b"enrich.masked": b"true" if self._of.is_masked else None,
                b"enrich.topic": topics[at].encode(),
                b"enrich.partition": numbers[0][at],
                b"enrich.offset": numbers[1][at],
                b"enrich.key": None if key is None else key[:LONGEST_KEY],
                # Without these a replay would take the letter for whole.
                b"enrich.key_length": None if len(key or b"") <= LONGEST_KEY else str(len(key)).encode(),
                b"enrich.headers_left_out": str(left_out).encode() if left_out else None,
                b"enrich.length": str(len(value)).encode(),
                b"enrich.sha256": hashlib.sha256(value).hexdigest().encode(),
            }
            headers = [(name, content) for name, content in brought if name not in own]
            headers += [(name, content) for name, content in own.items() if content is not None]
            topic_id = self._of.source_ids.get(topics[at])
            sender = self._of.sender if topic_id is None else f"{self._of.sender}/{topic_id}"
            yield own_places[at] + b"/" + sender.encode(), value[: min(room, LARGEST_VALUE)], headers

    def _reason(self, at: int) -> str:
        if not self._usable[at]:
            return self._of.why.of(self._values[at])
        if self._fates[at] == Fate.DLQ:
            return f"no row in the table {self._of.lookups[self._decided[at]][1]}: {_STATUSES[self._statuses[at]]}"
        if self._problems[at] is None:
            return TOO_LARGE
        route = self._routes[at]
        return str(self._problems[at]) if route is None else f"route {route}: {self._problems[at]}"

    def _lookup(self, at: int) -> bytes | None:
        if not self._usable[at] or self._fates[at] != Fate.DLQ:
            return None
        decided: int = self._decided[at]
        return self._of.lookups[decided][0].encode()

    def _listed(self, name: str, otherwise: object) -> list[Any]:
        return self._columns[name].to_pylist() if name in self._columns else [otherwise] * self._count


_NEEDED = frozenset([BESIDE, FATE, HEADERS, KEY, OFFSET, PARTITION, PROBLEM, PROBLEM_ROUTE, TOPIC, USABLE, VALUE])
