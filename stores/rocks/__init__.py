"""The RocksDB engine: the durable copy of all tables, with the raw bytes of the topics.

One process writes (`RocksStore`), any number read (`RocksReader`, opened after fork). All tables are in one database,
so that one write publishes changes of all of them at once. The design is explained in docs/adr/0006.
Only `database.py` talks to RocksDB; its errors are mapped to our tree there and nowhere else.
"""

from stores.rocks.database import Sizes
from stores.rocks.load.bulk import BulkLoad, Reserved
from stores.rocks.quarantine import QuarantineState
from stores.rocks.read.reader import RocksReader
from stores.rocks.read.verify import Verified
from stores.rocks.read.whole import WholeTable
from stores.rocks.store import RocksStore
from stores.rocks.write.incoming import Mirror, Prepared, TableChange
from stores.rocks.write.setting_aside import OTHER_REASONS, Room

__all__ = [
    "OTHER_REASONS",
    "BulkLoad",
    "Mirror",
    "Prepared",
    "QuarantineState",
    "Reserved",
    "RocksReader",
    "RocksStore",
    "Room",
    "Sizes",
    "TableChange",
    "Verified",
    "WholeTable",
]
