"""How the agent uses its memory, compared with its budget: for the metrics and `enrich agent status`."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from enrich.config.sections.host.memory_shares import MemoryShares
from enrich.kafka.clients.making import CONSUMER_QUEUE_BYTES
from stores.rocks import RocksStore, Sizes

if TYPE_CHECKING:
    from stores.segments import Stats


_MANY_KIB = 16 << 10
"""Only a process with more private pages than this is worth reading `smaps` to subtract those of segments."""


def store_sizes(shares: MemoryShares) -> Sizes:
    """For the agent's database and its loads."""
    return Sizes(shares.block_cache, shares.write_buffer, shares.bulk)


def reader_sizes(shares: MemoryShares) -> Sizes:
    return Sizes(shares.reader_cache, write_buffer=1 << 20)


def memory_use(
    shares: MemoryShares, store: RocksStore, segments: "Callable[[], Mapping[str, Stats | None]]"
) -> Mapping[str, float]:
    """Bytes by purpose. `*_share` is what the budget allows, the others what is in use now.

    `segments` gives the sizes of each table's; None for a table without any."""
    agent = os.getpid()
    mapped = sum(stats.bytes for stats in segments().values() if stats is not None)
    return {
        "budget": shares.budget,
        "agent_share": shares.agent,
        "loads_share": shares.loads_at_once * shares.load,
        "readers_share": shares.readers * shares.reader,
        "mapped_share": shares.mapped,
        "mapped": mapped,  # page cache: shared by all processes, and reclaimed by the kernel when it must
        "agent": private_bytes([agent]),
        "loads": private_bytes(_descendants(agent)),
        "consumer_queue_limit": CONSUMER_QUEUE_BYTES,
        **store.memory(),
    }


def private_bytes(pids: Iterable[int]) -> int:
    """Memory that belongs to these processes: what would be free again if all of them ended.

    A single process counts with its private pages. Pages that forked processes share are private to none of them:
    their proportional shares (PSS) of anonymous memory add up to all of it.
    """
    return sum(_private_kib(pid, shared=True) for pid in pids) * 1024


def unshared_bytes(pid: int) -> int:
    """Private memory of this process: for a forked one, only what it allocated since the fork."""
    return _private_kib(pid, shared=False) * 1024


def _private_kib(pid: int, *, shared: bool) -> int:
    sizes = {"Private_Clean": 0, "Private_Dirty": 0, "Pss_Anon": 0}
    try:
        with Path(f"/proc/{pid}/smaps_rollup").open(encoding="utf-8") as rollup:
            for line in rollup:
                name, _, size = line.partition(":")
                if name in sizes:
                    sizes[name] = int(size.split()[0])
        clean, dirty = sizes["Private_Clean"], sizes["Private_Dirty"]
        if clean + dirty > _MANY_KIB:
            of_segments = _kib_of_segments(pid)
            clean, dirty = clean - of_segments["Private_Clean"], dirty - of_segments["Private_Dirty"]
    except (FileNotFoundError, ProcessLookupError):
        return 0  # a load that has just ended
    return clean + (max(dirty, sizes["Pss_Anon"]) if shared else dirty)


def _kib_of_segments(pid: int) -> Mapping[str, int]:
    """Pages of segments that no other process maps right now. They are page cache, which has a budget of its own. They
    are dirty until the kernel has written them to disk."""
    sizes, is_segment = {"Private_Clean": 0, "Private_Dirty": 0}, False
    with Path(f"/proc/{pid}/smaps").open(encoding="utf-8") as mappings:
        for line in mappings:
            name, _, size = line.partition(":")
            if "-" in line.partition(" ")[0]:
                is_segment = line.rstrip().endswith((".segment", ".segment (deleted)"))
            elif is_segment and name in sizes:
                sizes[name] += int(size.split()[0])
    return sizes


def _descendants(pid: int) -> list[int]:
    """The fork server of loads, and the loads. Empty on a kernel that does not list children."""
    children: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            children += map(int, listed.read_text(encoding="ascii").split())
    return [one for child in children for one in (child, *_descendants(child))]
