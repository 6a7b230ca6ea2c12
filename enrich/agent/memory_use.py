"""What the agent's memory is used for, beside what its budget gives: for the metrics and `enrich agent status`."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from enrich.config.memory_shares import MemoryShares
from enrich.kafka.clients import CONSUMER_QUEUE_BYTES
from stores.rocks import RocksStore, Sizes


def store_sizes(shares: MemoryShares) -> Sizes:
    """For the agent's database and its loads."""
    return Sizes(shares.block_cache, shares.write_buffer, shares.bulk)


def reader_sizes(shares: MemoryShares) -> Sizes:
    return Sizes(shares.reader_cache, write_buffer=1 << 20)


def memory_use(shares: MemoryShares, store: RocksStore) -> Mapping[str, float]:
    """Bytes by what they are for. `*_share` is what the budget gives, the others what is taken now."""
    agent = os.getpid()
    return {
        "budget": shares.budget,
        "agent_share": shares.agent,
        "loads_share": shares.loads_at_once * shares.load,
        "readers_share": shares.readers * shares.reader,
        "agent": private_bytes([agent]),
        "loads": private_bytes(_descendants(agent)),
        "consumer_queue_limit": CONSUMER_QUEUE_BYTES,
        **store.memory(),
    }


def private_bytes(pids: Iterable[int]) -> int:
    """Memory that belongs to these processes: what would be free again if all of them ended.

    Of one process its private pages. What forked ones share with each other is private to none of them: of anonymous
    memory their proportional shares add up to all of it.
    """
    return sum(_private_kib(pid) for pid in pids) * 1024


def _private_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0  # a load that has just ended
    sizes = {name: int(size.split()[0]) for name, size in (line.split(":", 1) for line in lines[1:])}
    return sizes["Private_Clean"] + max(sizes["Private_Dirty"], sizes["Pss_Anon"])


def _descendants(pid: int) -> list[int]:
    """The template of loads and the loads. None on a kernel that does not tell."""
    children: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            children += map(int, listed.read_text(encoding="ascii").split())
    return [one for child in children for one in (child, *_descendants(child))]
