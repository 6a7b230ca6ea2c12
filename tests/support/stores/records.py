"""Records on their way into an engine, those included that cannot become row versions."""

from typing import cast

from stores.table import RowVersion


def raw_record(key: bytes | None, partition: int, offset: int, timestamp: int, value: bytes | None) -> RowVersion:
    """As `RowVersion`; without a key it is none, and engines say so."""
    return RowVersion(cast("bytes", key), partition, offset, timestamp, value)
