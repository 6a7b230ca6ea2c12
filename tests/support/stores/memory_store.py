"""An engine in memory: keeps every promise of the protocol in the simplest way, so that others are compared with it.

A publication copies the index of the tables that it changes, so a snapshot is just a reference to the old index.
"""

import itertools
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from stores.answers import (
    chosen,
    is_expired,
    raised,
    require_columns,
    require_reached,
    superseded_snapshot,
    unknown_table,
)
from stores.keys import key_bytes, milliseconds
from stores.networks import Network, parse_address, parse_network, shortest_prefix
from stores.protocol import NO_KEY, NO_NETWORK, Clock, KeyKind, Publication, Quarantined, TableSpec, TableUpdate
from stores.table import TIMESTAMP, Found, HistoryFloor, Offsets, Seq, Status

_NO_ROW = -1


@dataclass(frozen=True, slots=True, order=True)
class _Version:
    """A row version without its key; ordered like versions of different partitions: by time, then by place."""

    timestamp: int
    partition: int
    offset: int
    row: int = field(compare=False)
    """The index of its row in the table's rows; `_NO_ROW` for a tombstone."""
    arrived: int = field(compare=False)


_Key = bytes | Network
_Answer = tuple[Status, _Version | None]


@dataclass(frozen=True, slots=True)
class _State:
    """The whole state of one table at one seq. Never changed, only replaced."""

    spec: TableSpec
    versions: Mapping[_Key, tuple[_Version, ...]]
    rows: pa.StructArray
    positions: Offsets
    floors: Mapping[int, HistoryFloor]
    complete_through: int | None

    @classmethod
    def empty(cls, spec: TableSpec) -> "_State":
        rows = pa.array([], pa.struct(list(spec.columns)))
        return cls(spec, {}, rows, positions={}, floors={}, complete_through=None)


class MemoryStore:
    """A writer (`publish`, `remove_expired`) and its readers in one process."""

    def __init__(self, tables: Mapping[str, TableSpec], clock: Clock) -> None:
        self._clock = clock
        self._store_id = uuid.uuid4().hex
        self._snapshot = MemorySnapshot(self._seq(0), {name: _State.empty(spec) for name, spec in tables.items()})

    def publish(self, updates: Mapping[str, TableUpdate]) -> Publication:
        states = dict(self._snapshot.states)
        quarantined: list[Quarantined] = []
        for name, update in updates.items():
            if name not in states:
                raise unknown_table(name, list(states))
            states[name], refused = _with_update(states[name], name, update, self._clock.now_ms())
            quarantined += refused
        return self._show(states, quarantined)

    def remove_expired(self) -> Publication:
        now = self._clock.now_ms()
        return self._show({name: _without_expired(state, now) for name, state in self._snapshot.states.items()})

    def reader(self) -> "MemoryReader":
        return MemoryReader(lambda: self._snapshot)

    def _show(self, states: Mapping[str, _State], quarantined: Sequence[Quarantined] = ()) -> Publication:
        self._snapshot = MemorySnapshot(self._seq(self._snapshot.seq.counter + 1), states)
        return Publication(self._snapshot.seq, tuple(quarantined))

    def _seq(self, counter: int) -> Seq:
        return Seq(self._store_id, generation=0, counter=counter)


class MemoryReader:
    def __init__(self, newest: "Callable[[], MemorySnapshot]") -> None:
        self._newest = newest
        self._taken = 0

    def snapshot(self) -> "MemorySnapshot":
        self._taken += 1
        taken = self._taken

        def require_current() -> None:
            # This engine could answer from any snapshot. It raises as the other engines must, so that no test and no
            # caller relies on more than the protocol promises.
            if taken != self._taken:
                raise superseded_snapshot()

        return replace(self._newest(), require_current=require_current)

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    seq: Seq
    states: Mapping[str, _State]
    require_current: Callable[[], None] = lambda: None

    def table(self, name: str) -> "MemoryTable":
        if name not in self.states:
            raise unknown_table(name, list(self.states))
        return MemoryTable(self.states[name], self)


@dataclass(frozen=True, slots=True)
class MemoryTable:
    _state: _State
    _snapshot: MemorySnapshot

    @property
    def columns(self) -> pa.Schema:
        return self._state.spec.columns

    @property
    def positions(self) -> Offsets:
        return self._state.positions

    @property
    def floors(self) -> Mapping[int, HistoryFloor]:
        return self._state.floors

    @property
    def complete_through(self) -> int | None:
        return self._state.complete_through

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,
    ) -> Found:
        self._snapshot.require_current()
        require_columns(self.columns, columns)
        require_reached(self.positions, pin)
        probes = key_bytes(keys)
        if as_of is None:
            # Without a time the answer depends on the key alone: look each distinct key up once.
            encoded = probes.dictionary_encode()
            answers = [self._find(key, None, pin) for key in encoded.dictionary.to_pylist()]
            answers.append((Status.NULL_KEY, None))
            which = encoded.indices.fill_null(len(answers) - 1).to_numpy()
        else:
            times = milliseconds(as_of)
            answers = [
                (Status.NULL_KEY, None) if key is None or time is None else self._find(key, time, pin)
                for key, time in zip(probes.to_pylist(), times.to_pylist(), strict=True)
            ]
            which = np.arange(len(answers))
        return self._gather(answers, which, columns)

    def _find(self, key: bytes, time: int | None, pin: Offsets | None) -> _Answer:
        if self._state.spec.key is KeyKind.EXACT:
            candidates: Iterable[_Key] = (key,)
        else:
            try:
                address = parse_address(key)
            except ValueError:
                return Status.BAD_KEY, None
            # Longest prefix first; a deleted network does not hide a shorter one that is not deleted.
            lengths = range(128, shortest_prefix(address) - 1, -1)
            candidates = (Network.around(address, length) for length in lengths)
        if is_expired(self._state.floors, time, pin):
            return Status.EXPIRED, None
        deleted: _Version | None = None
        for candidate in candidates:
            version = _visible(self._state.versions.get(candidate, ()), time, pin)
            if version is not None and version.row != _NO_ROW:
                return Status.HIT, version
            deleted = deleted or version
        return (Status.MISS, None) if deleted is None else (Status.DELETED, deleted)

    def _gather(self, answers: Sequence[_Answer], which: np.ndarray, columns: Sequence[str]) -> Found:
        def position(name: str, kind: pa.DataType) -> pa.Array:
            values = [None if version is None else getattr(version, name) for _, version in answers]
            return pa.array(values, kind).take(pa.array(which))

        hits = [version.row if version is not None and version.row != _NO_ROW else None for _, version in answers]
        return Found(
            values=chosen(self._state.rows, columns).take(pa.array(hits, pa.int64()).take(pa.array(which))),
            status=pa.array([status for status, _ in answers], pa.int8()).take(pa.array(which)),
            partition=position("partition", pa.int32()),
            offset=position("offset", pa.int64()),
            timestamp=position("timestamp", TIMESTAMP),
        )


def _visible(versions: Sequence[_Version], time: int | None, pin: Offsets | None) -> _Version | None:
    """The version of one key that answers."""
    candidates = [v for v in versions if pin is None or v.offset < pin.get(v.partition, 0)]
    if time is not None:
        return max((v for v in candidates if v.timestamp <= time), default=None)
    by_partition = itertools.groupby(sorted(candidates, key=lambda v: (v.partition, v.offset)), lambda v: v.partition)
    return max((list(group)[-1] for _, group in by_partition), default=None)


def _with_update(state: _State, name: str, update: TableUpdate, now: int) -> tuple[_State, list[Quarantined]]:
    """The table with the new versions, and the records that could not become one."""
    spec = state.spec
    decoded = spec.decoder.decode(update.versions.column("value"))
    versions = dict(state.versions)
    quarantined: list[Quarantined] = []
    for index, record in enumerate(update.versions.to_pylist()):
        if record["offset"] < state.positions.get(record["partition"], 0):
            continue
        reason = NO_KEY if record["key"] is None else decoded.bad.get(index)
        key: _Key = record["key"]
        if reason is None and spec.key is KeyKind.CIDR:
            try:
                key = parse_network(record["key"])
            except ValueError:
                reason = NO_NETWORK
        if reason is not None:
            quarantined.append(Quarantined(name, **record, reason=reason, arrived=now))
            continue
        row = _NO_ROW if record["value"] is None else len(state.rows) + index
        version = _Version(record["timestamp"], record["partition"], record["offset"], row, now)
        versions[key] = (*versions.get(key, ()), version)
    complete_through = state.complete_through if update.complete_through is None else update.complete_through
    new_state = replace(
        state,
        versions=versions,
        rows=pa.concat_arrays([state.rows, decoded.rows]),
        positions={**state.positions, **update.positions},
        floors={**state.floors, **update.floors},
        complete_through=complete_through,
    )
    return new_state, quarantined


def _without_expired(state: _State, now: int) -> _State:
    """The table without the versions that are older than its history, with the floors raised over them."""
    horizon = now - state.spec.history_ms
    floors = dict(state.floors)
    kept: dict[_Key, tuple[_Version, ...]] = {}
    for key, versions in state.versions.items():
        expired = {}
        for old in versions:
            successor = _successor_before(versions, old, horizon)
            if successor is not None:
                expired[old] = successor
        for successor in expired.values():
            raised(floors, successor.partition, successor.offset, successor.timestamp)
        kept[key] = tuple(version for version in versions if version not in expired)
    return _compacted(replace(state, versions=kept, floors=floors))


def _successor_before(versions: Sequence[_Version], old: _Version, horizon: int) -> _Version | None:
    """The first version that hides this one from every as-of time and pin since the horizon."""
    hiding = (
        v
        for v in versions
        if v.partition == old.partition
        and v.offset > old.offset
        and old.timestamp <= v.timestamp <= horizon
        and v.arrived < horizon  # a pin may have been taken at the horizon, just before it arrived
    )
    return min(hiding, key=lambda v: v.offset, default=None)


def _compacted(state: _State) -> _State:
    """The same table without rows that no version refers to."""
    used = sorted({v.row for versions in state.versions.values() for v in versions if v.row != _NO_ROW})
    moved = {old: new for new, old in enumerate(used)}
    moved[_NO_ROW] = _NO_ROW
    versions = {key: tuple(replace(v, row=moved[v.row]) for v in versions) for key, versions in state.versions.items()}
    return replace(state, versions=versions, rows=state.rows.take(pa.array(used, pa.int64())))
