"""What the driver sends to workers that join whole events, and the columns that they return."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from enrich.config import Columns
from enrich.stage.task.spec import OUTCOME, TaskSpec

USABLE = "_usable"
OUTPUT = "_output"


@dataclass(frozen=True)
class WholeSpec:
    """The spec of one stage."""

    task: TaskSpec
    keys: Sequence[Sequence[str]]
    """For each lookup, the fields of its key."""
    fields: Columns
    """The fields of all keys."""

    @property
    def kind(self) -> pa.StructType:
        """Type of the column that the operator returns."""
        outcome = [self.task.answer_type.field(name) for name in OUTCOME]
        return pa.struct([pa.field(USABLE, pa.bool_()), pa.field(OUTPUT, pa.binary()), *outcome])
