"""A broker with one filled table: what benchmarks of a single table and of commands begin with."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.kit.metadata import fill, pipeline_of
from enrich.config import Pipeline
from enrich.dev import temporary_stack


@dataclass(frozen=True)
class FilledTable:
    """Made by `filled_table`."""

    pipeline: Pipeline
    folder: Path
    bootstrap_servers: str

    @property
    def file(self) -> Path:
        """The pipeline's."""
        return self.folder / "pipeline.yaml"


@contextmanager
def filled_table(topic: str) -> Iterator[FilledTable]:
    """A broker of its own with a table of `ROWS` rows, which nobody has loaded yet; gone after the block."""
    with temporary_stack(quiet=True) as stack, tempfile.TemporaryDirectory(prefix="enrich-bench-") as name:
        folder = Path(name)
        fill(stack.bootstrap_servers, topic)
        yield FilledTable(pipeline_of(folder, stack.bootstrap_servers, topic), folder, stack.bootstrap_servers)
