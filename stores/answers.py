"""What all engines do alike around a look-up: check the question, and choose columns."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.errors import ConfigError, Retryable
from stores.table import HistoryFloor, Offsets


def require_columns(schema: pa.Schema, columns: Sequence[str]) -> None:
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise ConfigError(f"the table has no column `{unknown[0]}`", next_step=f"choose from {', '.join(schema.names)}")


def require_reached(positions: Offsets, pin: Offsets | None) -> None:
    for partition, offset in (pin or {}).items():
        if positions.get(partition, 0) < offset:
            raise Retryable(
                f"the pin asks for partition {partition} up to offset {offset}, "
                f"this view has reached {positions.get(partition, 0)}",
                next_step="take a newer snapshot",
            )


def unknown_table(name: str, known: Sequence[str]) -> ConfigError:
    return ConfigError(f"the store has no table `{name}`", next_step=f"it has {', '.join(known)}")


def superseded_snapshot() -> Retryable:
    return Retryable(
        "this snapshot's reader has taken a newer one", next_step="ask the newer snapshot, or open a reader for each"
    )


def is_expired(floors: Mapping[int, HistoryFloor], time: int | None, pin: Offsets | None) -> bool:
    """Whether the question is below a floor. Decided for the whole table, not for the key: see ADR 0003."""
    if time is not None and any(time < floor.timestamp for floor in floors.values()):
        return True
    return pin is not None and any(
        offset < floors[partition].offset for partition, offset in pin.items() if partition in floors
    )


def raised(floors: dict[int, HistoryFloor], partition: int, offset: int, timestamp: int) -> None:
    """Raises a floor because a version is removed: to just above the version that hides it."""
    floor = floors.get(partition, HistoryFloor(0, 0))
    floors[partition] = HistoryFloor(max(floor.offset, offset + 1), max(floor.timestamp, timestamp))


def raised_over(
    floors: dict[int, HistoryFloor],
    partitions: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    timestamps: npt.NDArray[np.int64],
) -> None:
    """The same for many versions that hide a removed one."""
    for partition in np.unique(partitions).tolist():
        here = partitions == partition
        raised(floors, partition, int(offsets[here].max()), int(timestamps[here].max()))


def higher(floors: Mapping[int, HistoryFloor], others: Mapping[int, HistoryFloor]) -> dict[int, HistoryFloor]:
    """The higher floor of each partition: removed versions do not come back."""
    both = {**floors, **others}
    for partition in floors.keys() & others.keys():
        one, other = floors[partition], others[partition]
        both[partition] = HistoryFloor(max(one.offset, other.offset), max(one.timestamp, other.timestamp))
    return both


def chosen(rows: pa.StructArray, columns: Sequence[str]) -> pa.StructArray:
    if not columns:  # only the status is wanted; Arrow cannot derive the length of a struct without fields
        return pa.array([{}] * len(rows), pa.struct([]))
    return pa.StructArray.from_arrays(
        [rows.field(name) for name in columns], fields=[rows.type.field(name) for name in columns]
    )
