"""The pin of a batch: the offsets of its tables as of which it is answered, also when it is repeated."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from enrich.base.errors import WouldLoseData
from enrich.stage.task.freshness import FreshnessRule
from stores.table import Offsets


@dataclass(frozen=True)
class PinnedTable:
    """One table's part of a pin."""

    topic_id: str
    offsets: Offsets
    oldest_ms: int | None = None
    """Times before it are expired. Kept, because the table may have another `history` when the batch is repeated. None
    in a pin of an earlier release."""


@dataclass(frozen=True)
class Pin:
    """The offsets of all tables. It travels with the tasks of its batch."""

    time_ms: int
    """The driver's clock when it asked the brokers for the offsets."""
    tables: Mapping[str, PinnedTable]

    def to_text(self) -> str:
        tables = {
            name: {
                "topic_id": table.topic_id,
                "offsets": {str(p): offset for p, offset in table.offsets.items()},
                "oldest_ms": table.oldest_ms,
            }
            for name, table in sorted(self.tables.items())
        }
        return json.dumps({"time_ms": self.time_ms, "tables": tables})

    @classmethod
    def from_text(cls, text: str) -> "Pin":
        content = json.loads(text)
        tables = {
            name: PinnedTable(
                str(table["topic_id"]),
                {int(p): int(offset) for p, offset in table["offsets"].items()},
                table.get("oldest_ms"),
            )
            for name, table in content["tables"].items()
        }
        return cls(int(content["time_ms"]), tables)


def oldest_seen(time_ms: int, rule: FreshnessRule) -> int:
    """The oldest time that a batch with a pin of this time sees. Half of the history is kept for repeats: what a first
    attempt sees must still be there for them."""
    return time_ms - rule.history_ms // 2


def expired_pin(table: str, why: str) -> WouldLoseData:
    """Only people can decide to continue with other answers than those that may be in the output already."""
    return WouldLoseData(
        f"the batch under way cannot be repeated with the same answers: its pin has expired, as {why}",
        where=f"table {table}",
        next_step="restore what is missing, or accept other answers for this one batch: enrich run STAGE --new-pin; "
        "if a batch takes longer than the table's `history`, raise that, or lower maxOffsetsPerTrigger",
    )
