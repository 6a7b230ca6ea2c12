"""The version of each record: from its header `enrich.version`, the declared column, or generation and offset; and its
release, from its header `enrich.release`."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from enrich.kafka.identity import RELEASE, VERSION
from enrich.kafka.records import headers_of
from enrich.kafka.releases import release_of
from stores.versions import LARGEST_RELEASE, LARGEST_VERSION, whole_number
from sync_service.writeback.generation import OFFSETS, Generation

Versions = npt.NDArray[np.int64]
Releases = npt.NDArray[np.int64] | None
"""None: all are 0."""
Bad = dict[int, str]
"""Index of a record -> why it has no version."""

_DAY_MS = 86_400_000


def versions_of(
    messages: Sequence[Message],
    records: pa.RecordBatch,
    rows: pa.StructArray,
    column: str | None,
    generation: Generation | None,
) -> tuple[Versions, Releases, Bad]:
    """`records` are the messages as a batch of ROW_VERSIONS, `rows` their decoded values."""
    if column is not None:
        versions, bad = _declared(records, rows, column)
    elif generation is not None:
        versions, bad = _by_offset(records, generation), {}
    else:
        versions, bad = np.zeros(len(messages), np.int64), dict.fromkeys(range(len(messages)), f"no header {VERSION}")
    found: dict[int, int] = {}
    for index, message in enumerate(messages):
        headers = headers_of(message)
        if not headers:
            continue
        _take_header(index, headers, versions, bad)
        release = release_of(headers)
        if release is None or release > LARGEST_RELEASE:
            bad[index] = f"the header {RELEASE} is not a whole number between 0 and {LARGEST_RELEASE}"
        elif release:
            found[index] = release
    for index in np.flatnonzero((versions < 0) | (versions > LARGEST_VERSION)).tolist():
        bad[index] = f"its version is not between 0 and {LARGEST_VERSION}"
    releases = None
    if found:
        releases = np.zeros(len(messages), np.int64)
        releases[list(found)] = list(found.values())
    return versions, releases, bad


def _by_offset(records: pa.RecordBatch, generation: Generation) -> Versions:
    partitions = records.column("partition").to_numpy()
    offsets = records.column("offset").to_numpy()
    starts = np.zeros(int(partitions.max(initial=0)) + 1, np.int64)
    for partition, start in generation.starts.items():
        if partition < len(starts):
            starts[partition] = start
    versions: Versions = (generation.number - (offsets < starts[partitions])) * OFFSETS + offsets
    return versions


def _declared(records: pa.RecordBatch, rows: pa.StructArray, column: str) -> tuple[Versions, Bad]:
    values = pc.struct_field(rows, column)
    kind = values.type
    # A tombstone has no columns: if versions are times, its timestamp is used.
    instead = None
    if pa.types.is_timestamp(kind):
        instead = pc.multiply(records.column("timestamp"), 1000)
    elif pa.types.is_date(kind):
        instead = pc.divide(records.column("timestamp"), _DAY_MS)
        values = values.cast(pa.int32())
    numbers = values.cast(pa.int64())
    bad: Bad = {}
    missing = numbers.is_null().to_numpy(zero_copy_only=False)
    if missing.any():
        deleted = records.column("value").is_null().to_numpy(zero_copy_only=False)
        if instead is not None:
            numbers = pc.if_else(pa.array(missing & deleted), instead, numbers)
        else:
            bad.update(
                (index, f"a tombstone has no column {column}: it needs the header {VERSION}")
                for index in np.flatnonzero(missing & deleted).tolist()
            )
        bad.update(
            (index, f"its version column {column} is null") for index in np.flatnonzero(missing & ~deleted).tolist()
        )
    versions: Versions = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return versions, bad


def _take_header(index: int, headers: Sequence[tuple[str, bytes | None]], versions: Versions, bad: Bad) -> None:
    for name, content in headers:
        if name != VERSION:
            continue
        number = whole_number(content)
        if number is not None:
            versions[index] = number
            bad.pop(index, None)
        else:
            bad[index] = f"the header {VERSION} is not a whole number"
