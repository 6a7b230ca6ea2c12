"""The keys of a batch in the form that look-ups in segments take: bytes, offsets and hashes."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from stores.keys import key_bytes
from stores.segments.loops.compiled import Bytes, Flags, Hashes, Integers
from stores.segments.loops.hashing import hash_keys
from stores.segments.sources import key_columns


@dataclass(frozen=True, slots=True)
class Probes:
    data: Bytes
    starts: Integers
    lengths: Integers
    hashes: Hashes
    asked: Integers
    """The indexes of the keys to look up: those that are not null."""

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def of(cls, keys: pa.Array) -> "Probes":
        """Raises ConfigError for keys of a type that cannot be a key."""
        binary = key_bytes(keys)
        data, offsets = key_columns(binary)
        probes = cls.at(data, offsets[:-1], np.diff(offsets))
        return probes.only(binary.is_valid().to_numpy(zero_copy_only=False)) if binary.null_count else probes

    @classmethod
    def at(cls, data: Bytes, starts: Integers, lengths: Integers) -> "Probes":
        """Keys in `data`, all of them to be looked up."""
        return cls(data, starts, lengths, hash_keys(data, starts, lengths), np.arange(len(starts)))

    def only(self, chosen: Flags) -> "Probes":
        """The same keys, of which only the chosen ones are looked up."""
        return replace(self, asked=self.asked[chosen[self.asked]])


class LastProbes:
    """Caches the keys of the last batch: the lookups of a stage often ask several tables for the same keys."""

    def __init__(self) -> None:
        self._keys: pa.Array | None = None
        self._probes: Probes | None = None

    def of(self, keys: pa.Array) -> Probes:
        if self._probes is None or self._keys is None or not _is_same(keys, self._keys):
            self._probes = Probes.of(keys)
            self._keys = keys
        return self._probes


def _is_same(keys: pa.Array, others: pa.Array) -> bool:
    """Whether two arrays use the same buffers; values are not read. `others` is still referenced, so its buffers cannot
    have been reused."""
    if keys is others:
        return True
    if keys.type != others.type or (len(keys), keys.offset) != (len(others), others.offset):
        return False
    if pa.types.is_nested(keys.type) or pa.types.is_dictionary(keys.type):
        return False  # what their children and dictionaries hold is not among their buffers
    return _addresses(keys) == _addresses(others)


def _addresses(keys: pa.Array) -> list[int | None]:
    return [None if buffer is None else buffer.address for buffer in keys.buffers()]
