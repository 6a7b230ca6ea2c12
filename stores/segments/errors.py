"""The error for a segment whose content has changed."""

from pathlib import Path

from stores.errors import CorruptState


def damaged(path: Path, what: str) -> CorruptState:
    return CorruptState(
        f"a segment {what}", where=str(path), next_step="its agent builds the table anew; try again in a few seconds"
    )
