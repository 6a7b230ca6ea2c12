"""Where a store lives on its host, and which files are in its directory.

The directory's name contains a fingerprint of everything that decides what its rows look like. So two releases, or two
versions of a pipeline, run side by side, each with an agent of its own.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from enrich.config import Pipeline
from enrich.host.ipc.header import FORMAT as HEADER_FORMAT

FORMAT = 3
"""The format of the whole directory, but for the header. It must be raised when an agent of an older release could not
read it, and when readers and agents of two releases would not understand each other."""

# Keys that do not change the rows: how fresh they have to be, and how they are read.
_NOT_ABOUT_ROWS = {"freshness", "access"}


@dataclass(frozen=True)
class StorePaths:
    """The directory of one store."""

    folder: Path

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def header(self) -> Path:
        return self.folder / "header"

    @property
    def leases(self) -> Path:
        return self.folder / "leases"

    @property
    def rows(self) -> Path:
        return self.folder / "rows"

    @property
    def segments(self) -> Path:
        return self.folder / "segments"

    @property
    def damaged(self) -> Path:
        """Has damaged stores that are being deleted, while a new one is loaded in their place."""
        return self.folder / "damaged"

    @property
    def imports(self) -> Path:
        """Requests to import a snapshot, and their outcomes."""
        return self.folder / "imports"

    @property
    def log(self) -> Path:
        return self.folder / "agent.log"


def paths_of(pipeline: Pipeline) -> StorePaths:
    """The directory for this pipeline's tables; it need not exist yet."""
    tables = {name: table.model_dump(mode="json", exclude=_NOT_ABOUT_ROWS) for name, table in pipeline.tables.items()}
    decides = json.dumps([FORMAT, HEADER_FORMAT, pipeline.kafka.bootstrap_servers, tables], sort_keys=True)
    fingerprint = hashlib.sha256(decides.encode()).hexdigest()[:16]
    return StorePaths(Path(pipeline.state_dir) / pipeline.name / f"{FORMAT}-{fingerprint}")
