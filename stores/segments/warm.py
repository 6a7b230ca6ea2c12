"""Compiles every loop once, so that the next process finds the code on disk."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from stores.clock import SystemClock
from stores.protocol import Decoded, KeyKind, TableSpec
from stores.segments.read.reader import SegmentsReader
from stores.segments.write.change import Change
from stores.segments.write.tiers import Tiers
from stores.segments.write.writer import SegmentsWriter
from stores.table import TIMESTAMP, RowVersion, Seq, row_versions

_COLUMNS = pa.schema([("text", pa.string()), ("number", pa.int64())])

_NETWORKS = [bytes([96 + 8, *bytes(10), 255, 255, 10, 0, 0, 0]), bytes(17)]
"""10.0.0.0/8 and ::/0, as keys."""


class _NoDecoder:
    def decode(self, values: pa.BinaryArray) -> Decoded:
        return Decoded(pa.nulls(len(values), pa.struct(list(_COLUMNS))))


def compile_loops() -> None:
    """Does everything once with two small tables. Takes a core fifteen seconds the first time, then one."""
    specs = {
        "keys": TableSpec(_COLUMNS, _NoDecoder()),
        "networks": TableSpec(_COLUMNS, _NoDecoder(), key=KeyKind.CIDR),
    }
    keys = {"keys": pa.array(["a", "b"], pa.binary()), "networks": pa.array(_NETWORKS, pa.binary())}
    probes = {"keys": pa.array(["a", "x", None]), "networks": pa.array(["10.1.2.3", "::1", "x"])}
    with tempfile.TemporaryDirectory(prefix="enrich-segments-") as folder:
        directory = Path(folder)
        tiers = Tiers(base_share=0, base_at_least=0)
        writer = SegmentsWriter(directory, specs, Seq("warm", 0, 0), {}, SystemClock(), tiers=tiers)
        reader = SegmentsReader(directory, specs)
        for step in range(4):
            if step == 3:
                while writer.merge():
                    pass
            changes = {name: _change(keys[name], 4 * step) for name in specs}
            writer.publish(Seq("warm", 0, step + 1), changes)
            snapshot = reader.snapshot()
            for name in specs:
                times = pa.array([step, step, step], TIMESTAMP)
                for question in ({}, {"pin": {0: step}}, {"as_of": times}, {"as_of": times, "pin": {0: step}}):
                    snapshot.table(name).lookup(probes[name], _COLUMNS.names, **question)
        writer.stats()


def _change(keys: pa.Array, offset: int) -> Change:
    # Each key twice, so that there is a history.
    versions = row_versions(
        RowVersion(key, 0, offset + at, offset + at, b"") for at, key in enumerate(2 * keys.to_pylist())
    )
    numbers = np.arange(len(versions))
    rows = [{"text": "some longer text" if n % 2 else "short", "number": n} for n in numbers.tolist()]
    columns = pa.array(rows, pa.struct(list(_COLUMNS)))
    return Change({0: offset + len(versions)}, {}, None, versions, columns, buried={0: 1})
