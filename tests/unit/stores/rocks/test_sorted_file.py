"""The file of a load stays in memory: RocksDB asks the system to forget what it wrote."""

import ctypes
import mmap
from pathlib import Path

from stores.rocks.database import Sizes, SortedFile


def share_in_memory(path: Path) -> float:
    """Of the file's pages."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        pages = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(mapped)
        failed = ctypes.CDLL(None).mincore(ctypes.byref(first), ctypes.c_size_t(len(mapped)), pages)
        del first  # it holds the mapping
    assert not failed
    return sum(page & 1 for page in pages) / len(pages)


def test_the_rows_of_a_load_are_in_memory_when_it_is_over(tmp_path: Path) -> None:
    file = SortedFile(tmp_path / "rows.sst", Sizes())
    keys = [b"%09d" % number for number in range(200_000)]
    file.append(keys, [key * 3 for key in keys])
    file.finish()
    assert share_in_memory(file.path) > 0.9
