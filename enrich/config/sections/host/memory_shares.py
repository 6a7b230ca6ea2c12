"""Divides the memory budget among the agent, loads and readers. For the figures, and for how to size a budget, see
docs/local-store.md."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from enrich.config.messages.problems import Finding, Path
from enrich.config.sections.host.memory import Memory
from enrich.config.types.quantities import size_text

_MIB = 2**20

# Measured (private memory, rows of 100 bytes): what each takes besides its caches. A load takes about five times the
# size of the rows that it sorts at once, for the sort's copies and what two allocators keep, and 40 MiB in the process
# that reads its topic. A reader's figure is for look-ups of 10,000 keys at a time.
_AGENT = 112 * _MIB
_LOAD = 250 * _MIB
_LOAD_COPIES = 5
_READER = 32 * _MIB
_SEGMENTS = 176 * _MIB  # the engine in the agent (48), and the process that builds a base of 1 M rows (128)
_WRITE_BUFFERS = 2
"""One is filled while the other is flushed."""


@dataclass(frozen=True)
class MemoryShares:
    """The shares of one host, in bytes."""

    budget: int
    readers: int
    block_cache: int
    """The agent's."""
    write_buffer: int
    bulk: int
    """Rows that a load sorts at once."""
    reader_cache: int
    """The block cache of each reader."""
    loads_at_once: int = 1

    @property
    def agent(self) -> int:
        return _AGENT + self.block_cache + _WRITE_BUFFERS * self.write_buffer

    @property
    def load(self) -> int:
        """Memory of each load while it runs."""
        return _LOAD + _LOAD_COPIES * self.bulk

    @property
    def reader(self) -> int:
        """What a reader adds to its process."""
        return _READER + self.reader_cache

    @property
    def assigned(self) -> int:
        return self.agent + self.loads_at_once * self.load + self.readers * self.reader

    @property
    def mapped(self) -> int:
        """What is left for segments beyond their engine's share: pages that the system shares among all readers.

        A reader takes no more memory with segments than with a database, which they replace.
        """
        return max(0, self.budget - self.assigned - _SEGMENTS)


def least_shares(readers: int) -> MemoryShares:
    """The smallest shares that work: look-ups and loads are slow with such caches, but correct."""
    return MemoryShares(0, readers, block_cache=4 * _MIB, write_buffer=2 * _MIB, bulk=4 * _MIB, reader_cache=_MIB)


def _usual_shares(readers: int) -> MemoryShares:
    return MemoryShares(
        0, readers, block_cache=32 * _MIB, write_buffer=16 * _MIB, bulk=32 * _MIB, reader_cache=8 * _MIB
    )


def memory_shares(memory: Memory) -> MemoryShares:
    """The shares of a budget that passed the rules. Between the least and the usual sizes all grow together. Beyond
    that a second load may run at once, and the rest is left for the page cache of the store's files."""
    readers = memory.max_readers or _readers_within(memory.budget)
    least, usual = least_shares(readers), _usual_shares(readers)
    part = min(1.0, (memory.budget - least.assigned) / (usual.assigned - least.assigned))

    def between(smallest: int, largest: int) -> int:
        return smallest + int((largest - smallest) * part)

    shares = MemoryShares(
        memory.budget,
        readers,
        block_cache=between(least.block_cache, usual.block_cache),
        write_buffer=between(least.write_buffer, usual.write_buffer),
        bulk=between(least.bulk, usual.bulk),
        reader_cache=between(least.reader_cache, usual.reader_cache),
    )
    two_loads = replace(shares, loads_at_once=2)
    return two_loads if two_loads.assigned <= memory.budget else shares


def _readers_within(budget: int) -> int:
    """The host's cores, or as many as the budget holds."""
    none = least_shares(0)
    most = (budget - none.assigned) // none.reader
    return max(1, min(os.cpu_count() or 1, most))


def memory_rules(memory: Memory) -> Iterator[Finding]:
    readers = memory.max_readers or 1
    least = least_shares(readers).assigned
    if memory.budget < least:
        path: Path = ("memory", "budget")
        count = "one reader" if readers == 1 else f"{readers} readers"
        message = f"{size_text(memory.budget)} is too little: the agent and {count} need {size_text(least)}"
        yield Finding(path, message, about=(path, ("memory", "max_readers")))
