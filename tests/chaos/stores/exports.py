"""A store of the right size for exports to be interrupted, and a program that exports it until it is killed:

python -m tests.chaos.stores.exports STORE SNAPSHOTS
"""

import sys
from pathlib import Path

from stores.clock import SystemClock
from stores.rocks import RocksReader, RocksStore
from stores.snapshots import Origin, Snapshot, export_table
from tests.chaos.stores.life import SPECS, batch

END = 6_000


def make_store(directory: Path) -> None:
    """History is kept for a day, so that a snapshot has files of both kinds."""
    from dataclasses import replace

    specs = {name: replace(spec, history_ms=86_400_000) for name, spec in SPECS.items()}
    store = RocksStore(directory, specs, SystemClock())
    for start in range(0, END, 2_000):
        store.publish({"left": batch(start, start + 2_000)})
    store.close()


def export(store: Path, location: Path) -> Snapshot:
    reader = RocksReader(store, SPECS)
    try:
        snapshot = reader.snapshot()
        source = snapshot.table("left").whole()
        now = SystemClock().now_ms()
        return export_table(source, Origin("p", "left", "topic", "d", snapshot.seq, now, now, {}), location)
    finally:
        reader.close()


if __name__ == "__main__":
    while True:
        print(export(Path(sys.argv[1]), Path(sys.argv[2])).path, flush=True)  # noqa: T201 - the test reads it
