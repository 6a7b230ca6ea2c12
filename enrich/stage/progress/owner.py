"""Whose a checkpoint is. Another stage, or the same one of another pipeline, would go on where that one is, and leave
out all before; and as neither could shut the other out, both would record batches in one log."""

import json
from typing import Protocol

from enrich.base.errors import WouldLoseData
from enrich.config.groups import stage_group

NAME = "enrich-stage"
"""The text in the checkpoint that names the stage."""


class Texts(Protocol):
    """The part of a checkpoint that is needed here."""

    def read(self, name: str) -> str | None: ...
    def create(self, name: str, text: str) -> bool: ...


def require_own(checkpoint: Texts, pipeline: str, stage: str) -> None:
    """Raises WouldLoseData if it is another's. One of an earlier release does not say whose it is."""
    text = checkpoint.read(NAME)
    if text is None:
        return
    owner = json.loads(text)
    if (owner["pipeline"], owner["stage"]) != (pipeline, stage):
        group = stage_group(owner["pipeline"], owner["stage"])
        raise WouldLoseData(
            f"the checkpoint is that of the stage {owner['stage']} of the pipeline {owner['pipeline']}: what that one "
            "has read would be left out",
            where=f"stages.{stage}.checkpoint",
            next_step="name another checkpoint; if it is the same stage, which had that name before, start it there "
            f"once with --from group:{group}",
        )


def claim(checkpoint: Texts, pipeline: str, stage: str) -> None:
    """From now on it is this stage's. Raises as `require_own` does, also if another one was quicker."""
    owner = json.dumps({"pipeline": pipeline, "stage": stage})
    if checkpoint.read(NAME) is not None or not checkpoint.create(NAME, owner):
        require_own(checkpoint, pipeline, stage)
