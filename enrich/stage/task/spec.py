"""What a driver sends to its workers: everything they need, in one value that can be pickled."""

from dataclasses import dataclass, field
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
"""The fields of an answer beside its objects."""


@dataclass(frozen=True)
class TaskSpec:
    """The lookups of a stage and its pipeline. It contains secrets: it travels in the task and must not be written to a
    file."""

    pipeline: str
    """As `enrich.config.to_wire` writes it."""
    lookups: tuple[StageLookup, ...]
    rules: tuple[FreshnessRule, ...]
    lineage: bool = False
    mask_key: bytes = field(default=b"", repr=False)
    """Set if the pipeline has masks."""

    @cached_property
    def needs_times(self) -> bool:
        return any(lookup.as_of or lookup.waits for lookup in self.lookups)

    @cached_property
    def answer_type(self) -> pa.StructType:
        """Type of the answer column: an object for each lookup, its lineage if wanted, the event's fate, and on one
        event of each batch the worker's report."""
        fields = [pa.field(object_name(i), lookup.kind) for i, lookup in enumerate(self.lookups)]
        if self.lineage:
            fields += [pa.field(lineage_name(i), LINEAGE_TYPE) for i in range(len(self.lookups))]
        fields += [pa.field(name, pa.int8()) for name in (FATE, DECIDED_BY, STATUS)]
        return pa.struct([*fields, pa.field(REPORT, pa.string())])


def part_name(index: int) -> str:
    """The field of a composite key that holds this part."""
    return f"part_{index}"


def object_name(index: int) -> str:
    """The field of the answer that holds a lookup's object. The user's name could clash with other fields."""
    return f"object_{index}"


def lineage_name(index: int) -> str:
    return f"lineage_{index}"
