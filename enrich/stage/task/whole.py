"""What workers that join whole events need of the driver, and the columns that they give back."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from enrich.config import Columns
from enrich.stage.task.spec import OUTCOME, TaskSpec

USABLE = "_usable"
OUTPUT = "_output"


@dataclass(frozen=True)
class WholeSpec:
    """Of one stage."""

    task: TaskSpec
    keys: Sequence[Sequence[str]]
    """Of each lookup, the fields that its key consists of."""
    fields: Columns
    """All of them."""

    @property
    def kind(self) -> pa.StructType:
        """Of what the operator gives back for each event."""
        outcome = [self.task.answer_type.field(name) for name in OUTCOME]
        return pa.struct([pa.field(USABLE, pa.bool_()), pa.field(OUTPUT, pa.binary()), *outcome])
