"""Memory-mapped columnar segments: look-ups a batch at a time, one copy of each table for all workers of a host.

A mirror of the tables that RocksDB holds, never the truth itself: whatever is lost or does not fit is built again. One
process writes (`SegmentsWriter`), any number read (`SegmentsReader`), also across a fork. All of it stands in one
directory: immutable segments (layout.py says what is in one) and a manifest that names those of all tables at one seq
and is replaced as a whole. Why it looks as it does: docs/adr/0019.

The writer belongs in the agent, beside the store of rows, and follows it:

- at the start: `SegmentsWriter(directory, specs, store.seq, known, clock)`, where `known` are positions, floors and
  complete_through of each table in the store. `to_build` then names the tables that nobody can read yet, and why;
- build(table) gives a `TableBuild`: `add` every row version of the table (ROW_VERSIONS, in any order, history too),
  then `finish(store.seq, known)`. Publications go on meanwhile; their rows end up above what was built. Another process
  may make the base instead: a `Base` from the build's `files`, whose `finish` gives what `take` wants here;
- publish(seq, changes) after each publication of the store, in the same order: before another thread can publish there.
  Rows are decoded once, by whoever also looks for what must go to quarantine. When it raises Retryable (the disk is
  full) nothing is shown: call it again with the same changes. A change with `lost` takes a table from the readers,
  after a bulk load or where changes were not kept: build it anew;
- merge() in a thread of its own until it returns False, whenever something was published. It holds no lock while it
  works and runs mostly without the interpreter's;
- check() now and then (every second): it finds what was deleted or damaged, takes it from the readers, and says what to
  build. stats() says what a table takes, for `access: auto` and for people.

The loops are compiled at their first call on a host, fifteen seconds of a core: `compile_loops()` does it ahead of
time, in a process of its own or while an image is built (`python -m stores.segments`).

Readers need nothing of the writer but its directory. `snapshot()` is as in stores/protocol.py.
"""

from stores.segments.file import Written
from stores.segments.loops.compiled import are_loops_kept, load_kept_loops
from stores.segments.read.networks import Networks, network_keys
from stores.segments.read.reader import SegmentsReader, SegmentsSnapshot
from stores.segments.stats import Stats, bytes_in_memory, stats_of
from stores.segments.warm import compile_loops
from stores.segments.write.base import Base, BaseFiles
from stores.segments.write.change import Change, Known
from stores.segments.write.table_build import TableBuild
from stores.segments.write.tiers import Tiers
from stores.segments.write.writer import SegmentsWriter

__all__ = [
    "Base",
    "BaseFiles",
    "Change",
    "Known",
    "Networks",
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
    "network_keys",
    "stats_of",
]
