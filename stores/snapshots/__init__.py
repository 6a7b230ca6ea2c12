"""Snapshots of tables: all row versions of a table at one seq, in files that any host can verify and take in.

A snapshot is a directory with Arrow files and a manifest that vouches for each of them. It is made by a reader, beside
whatever the writer does, and is independent of how an engine lays its rows out. Whoever made it is not trusted: nothing
in it is executed, and nothing is taken into memory whose size was not checked before. Why it looks as it does:
docs/adr/0011.
"""

from stores.snapshots.export import Origin, export_table
from stores.snapshots.folder import newest_first, remove_older
from stores.snapshots.manifest import Manifest
from stores.snapshots.snapshot import Snapshot, open_snapshot

__all__ = [
    "Manifest",
    "Origin",
    "Snapshot",
    "export_table",
    "newest_first",
    "open_snapshot",
    "remove_older",
]
