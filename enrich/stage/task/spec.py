"""What a driver sends to its workers: everything that they need, in one value that can be pickled."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from enrich.stage.task.freshness import FreshnessRule
from enrich.stage.task.lookups import StageLookup

LINEAGE_TYPE = pa.struct(
    [
        pa.field("table", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("status", pa.string()),
    ]
)
LINEAGE = "_lineage"
"""The object of all lookups' lineages."""

FATE = "fate"
DECIDED_BY = "decided_by"
STATUS = "status"
REPORT = "report"
OUTCOME = (FATE, DECIDED_BY, STATUS, REPORT)
"""What an answer says of an event beside its objects."""


@dataclass(frozen=True)
class TaskSpec:
    """The lookups of a stage, and where to ask. With secrets in it: it travels in the task, never in a file."""

    pipeline: str
    """As `enrich.config.to_wire` writes it."""
    lookups: tuple[StageLookup, ...]
    rules: tuple[FreshnessRule, ...]
    lineage: bool = False

    @cached_property
    def needs_times(self) -> bool:
        return any(lookup.as_of or lookup.waits for lookup in self.lookups)

    @cached_property
    def answer_type(self) -> pa.StructType:
        """Of the column that comes back: an object a lookup, its lineage if wanted, the event's fate, and on one event
        of a batch what its worker tells of it."""
        fields = [pa.field(object_name(i), lookup.kind) for i, lookup in enumerate(self.lookups)]
        if self.lineage:
            fields += [pa.field(lineage_name(i), LINEAGE_TYPE) for i in range(len(self.lookups))]
        fields += [pa.field(name, pa.int8()) for name in (FATE, DECIDED_BY, STATUS)]
        return pa.struct([*fields, pa.field(REPORT, pa.string())])


def part_name(index: int) -> str:
    """A part of a composite key, in what is asked."""
    return f"part_{index}"


def object_name(index: int) -> str:
    """A lookup's object in the answer: users' names could be those of other fields."""
    return f"object_{index}"


def lineage_name(index: int) -> str:
    return f"lineage_{index}"
