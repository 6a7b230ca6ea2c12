"""What a new writer takes over from the previous one, which may have been killed at any moment."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from stores.clock import boot_id
from stores.errors import CorruptState, Retryable
from stores.protocol import TableSpec
from stores.segments.manifest import Manifest, TableState, parse_manifest, read_raw_manifest
from stores.segments.segment import Segment
from stores.segments.write.change import Known
from stores.table import Seq


def reusable(
    directory: Path, specs: Mapping[str, TableSpec], seq: Seq, known: Mapping[str, Known]
) -> Mapping[str, TableState]:
    """The state of each table at this seq, with its segments if they fit, else with the reason why not."""
    try:
        former: Manifest | None = parse_manifest(directory, read_raw_manifest(directory))
    except (CorruptState, Retryable):
        former = None  # without the manifest no segment can be reused
    if former is not None and former.seq.store != seq.store:
        former = None
    return {name: _state(directory, spec, former, name, known.get(name, Known())) for name, spec in specs.items()}


def _state(directory: Path, spec: TableSpec, former: Manifest | None, name: str, known: Known) -> TableState:
    now = known.with_segments(())
    if not known.positions:
        return now  # nothing has ever been published
    reason = "it must be built"
    table = None if former is None else former.tables.get(name)
    if former is not None and table is not None and table.absent is None:
        if table.load != now.load:
            reason = "its segments have the rows from before a load"
        elif dict(table.positions) != now.positions:
            reason = "its segments are older than its rows"
        else:
            try:
                for written in table.segments:
                    # After a system start, data that was never fsynced may be missing.
                    Segment(directory, written, spec.columns, is_trusted=former.boot == boot_id())
            except (CorruptState, FileNotFoundError) as error:
                reason = f"it is damaged: {error}"
            else:
                return replace(now, segments=tuple(table.segments))
    return replace(now, absent=reason)
