"""Turns a batch into row versions: skips records already stored, quarantines undecodable ones, masks networks.

What came is then written by the store, and passed on to its mirror.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stores.networks import parse_network
from stores.protocol import NO_KEY, NO_NETWORK, KeyKind, Quarantined, TableSpec, TableUpdate
from stores.rocks.network_rows import network_key
from stores.rocks.quarantine import cut_reason
from stores.rocks.state import TableState
from stores.table import Offsets, Seq


@dataclass(frozen=True, slots=True)
class Incoming:
    """The row versions of a batch, with keys as the table stores them; each partition's are in the order of offsets."""

    versions: pa.RecordBatch
    rows: pa.StructArray
    """Their values, decoded: null for a tombstone."""
    quarantined: Sequence[Quarantined] = ()


def incoming(name: str, spec: TableSpec, versions: pa.RecordBatch, positions: Offsets, now: int) -> Incoming:
    versions = _ordered(_beyond(versions, positions))
    # Decode now: an undecodable record is not a version, so it must not hide the one before it.
    decoded = spec.decoder.decode(versions.column("value"))
    reasons = dict(decoded.bad)
    without_key = versions.column("key").is_null()
    reasons.update(dict.fromkeys(pc.indices_nonzero(without_key).to_pylist(), NO_KEY))
    if spec.key is KeyKind.CIDR:
        keys: list[bytes | None] = []
        for index, key in enumerate(versions.column("key").to_pylist()):
            try:
                keys.append(network_key(parse_network(key or b"")))
            except ValueError:
                reasons.setdefault(index, NO_NETWORK)
                keys.append(key)
    if not reasons and spec.key is KeyKind.EXACT:
        return Incoming(versions, decoded.rows)
    quarantined = _quarantined(name, versions, reasons, now)
    if spec.key is KeyKind.CIDR:
        versions = versions.set_column(0, versions.schema.field(0), pa.array(keys, pa.binary()))
    good = np.ones(len(versions), bool)
    good[list(reasons)] = False
    chosen = pa.array(good)
    return Incoming(versions.filter(chosen), decoded.rows.filter(chosen), quarantined)


def _beyond(versions: pa.RecordBatch, positions: Offsets) -> pa.RecordBatch:
    """The versions that are not below the positions: those below are already stored."""
    if not positions or not len(versions):
        return versions
    partitions = versions.column("partition").to_numpy()
    reached = np.zeros(len(versions), np.int64)
    for partition in np.unique(partitions).tolist():
        reached[partitions == partition] = positions.get(partition, 0)
    new = versions.column("offset").to_numpy() >= reached
    return versions if new.all() else versions.filter(pa.array(new))


def _ordered(versions: pa.RecordBatch) -> pa.RecordBatch:
    offsets = versions.column("offset").to_numpy()
    if (np.diff(offsets) > 0).all():
        return versions
    return versions.take(pc.sort_indices(versions, [("partition", "ascending"), ("offset", "ascending")]))


def _quarantined(name: str, versions: pa.RecordBatch, reasons: dict[int, str], now: int) -> list[Quarantined]:
    indices = sorted(reasons)
    bad = versions.take(pa.array(indices, pa.int64())).select(["partition", "offset", "timestamp", "key", "value"])
    columns = (column.to_pylist() for column in bad.columns)
    return [
        Quarantined(name, partition, offset, timestamp, key, value, cut_reason(reasons[index]), now)
        for index, (partition, offset, timestamp, key, value) in zip(indices, zip(*columns, strict=True), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Prepared:
    """An update whose records are decoded already. Replaces it as long as the table's positions have not changed.

    A decoder may wait for a server, or fail. Neither may happen while the store is being written: all tables would
    wait.
    """

    update: TableUpdate
    came: Incoming
    spec: TableSpec
    """The spec whose decoder was used."""
    positions: Offsets
    """The table's positions at that time: records below them were left out."""

    @classmethod
    def of(cls, update: TableUpdate, table: TableState, spec: TableSpec, now: int) -> "Prepared":
        """Raises what the decoder raises."""
        # Whatever the clock says: what comes now is not from before the load.
        came = incoming(table.name, spec, update.versions, table.positions, max(now, table.loaded_ms))
        return cls(update, came, spec, table.positions)

    def fits(self, table: TableState) -> bool:
        return self.positions == table.positions


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a publication changed in a table."""

    state: TableState
    """The state after it."""
    came: Incoming | None = None
    """The new versions, if there are any."""
    is_replaced: bool = False
    """Whether all rows were replaced: a bulk load was swapped in."""


class Mirror(Protocol):
    """Keeps the same tables in another form, and gets every publication in order."""

    def follow(self, seq: Seq, changes: Mapping[str, TableChange]) -> None:
        """Called once the publication is on disk and before another one can begin. A mirror must handle its own errors:
        an exception from here would be taken for an error of the database."""
