"""Memory-mapped columnar segments: batched look-ups, with one copy of each table for all workers of a host.

A mirror of the tables in RocksDB, never the source of truth: segments that are lost or do not fit are built again. One
process writes (`SegmentsWriter`), any number read (`SegmentsReader`), also across a fork. Everything is in one
directory: immutable segments (see layout.py), and a manifest that lists those of all tables at one seq and is replaced
as a whole. The design is explained in docs/adr/0019.

The writer runs in the agent, beside the store of rows, and follows it:

- at the start: `SegmentsWriter(directory, specs, store.seq, known, clock)`, where `known` are positions, floors and
  complete_through of each table in the store. `to_build` then lists the tables that cannot be read yet, and why;
- build(table) gives a `TableBuild`. Make a `Base` from its `files`, here or in another process: `add` every row version
  of the table (ROW_VERSIONS, in any order, history too), then `finish`, whose result is for take(build, base).
  Publications go on meanwhile; their rows become deltas above the new base;
- publish(seq, changes) after each publication of the store, in the same order: before another thread can publish there.
  Rows are decoded only once, by the store, which also finds what must go to quarantine. If it raises Retryable (the
  disk is full), nothing becomes visible: call it again with the same changes. A change with `lost` withdraws a table
  from the readers, after a bulk load or if changes were not kept: build it anew;
- merge() in a thread of its own until it returns False, whenever something was published. It holds no lock while it
  works, and mostly not the GIL;
- check() regularly (every second): it finds deleted or damaged files, withdraws their tables from the readers, and says
  what to build. stats() says how large a table's segments are, for `access: auto` and for people.

The loops are compiled at their first call on a host, which takes a core fifteen seconds: `compile_loops()` does it
ahead of time, in a process of its own or while an image is built (`python -m stores.segments`).

Readers need only the writer's directory. `snapshot()` is as in stores/protocol.py.
"""

from stores.segments.file import Written
from stores.segments.loops.compiled import are_loops_kept, load_kept_loops
from stores.segments.read.reader import SegmentsReader, SegmentsSnapshot
from stores.segments.stats import Stats, bytes_in_memory, stats_of
from stores.segments.warm import compile_loops
from stores.segments.write.base import Base, BaseFiles, TableBuild
from stores.segments.write.change import Change, Known
from stores.segments.write.tiers import Tiers
from stores.segments.write.writer import SegmentsWriter

__all__ = [
    "Base",
    "BaseFiles",
    "Change",
    "Known",
    "SegmentsReader",
    "SegmentsSnapshot",
    "SegmentsWriter",
    "Stats",
    "TableBuild",
    "Tiers",
    "Written",
    "are_loops_kept",
    "bytes_in_memory",
    "compile_loops",
    "load_kept_loops",
    "stats_of",
]
