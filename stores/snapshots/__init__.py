"""Snapshots of tables: all row versions of a table at one seq, in files that any host can verify and import.

A snapshot is a directory with Arrow files and a manifest with a checksum for each of them. A reader makes it, while the
writer goes on; it does not depend on an engine's layout of rows. Its maker is not trusted: nothing in it is executed,
and the size of everything is checked before it is read into memory. The design is explained in docs/adr/0011.
"""

from stores.snapshots.export import Origin, export_table
from stores.snapshots.folder import CLOCKS_DIFFER_MS, ahead_of, newest_first, remove_older
from stores.snapshots.manifest import Manifest
from stores.snapshots.snapshot import Snapshot, open_snapshot

__all__ = [
    "CLOCKS_DIFFER_MS",
    "Manifest",
    "Origin",
    "Snapshot",
    "ahead_of",
    "export_table",
    "newest_first",
    "open_snapshot",
    "remove_older",
]
