"""The files of a store's directory.

db/          the database          watermark    see watermark.py
bulk/        sorted runs and files of bulk loads; the next writer deletes it
readers/     one directory for each secondary instance, named by its process
"""

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stores import files
from stores.errors import CorruptState
from stores.rocks import watermark
from stores.rocks.errors import mapped_files


@dataclass(frozen=True, slots=True)
class Directory:
    path: Path

    @property
    def database(self) -> Path:
        return self.path / "db"

    def prepare(self, *, may_make: bool) -> bool:
        """Whether a new store must be created here. Raises CorruptState if a store is missing, or part of it."""
        if may_make:
            with mapped_files(self.path):
                self.database.mkdir(parents=True, exist_ok=True)
        with mapped_files(self.path):
            has_files = self.database.exists() and any(self.database.iterdir())
        has_watermark = watermark.is_there(self.path)
        if has_files != has_watermark:
            # The watermark is written last: either the creation was interrupted, or something was deleted since.
            missing = "watermark" if has_files else "database"
            raise CorruptState(f"the store's {missing} is missing", where=str(self.path), next_step="rebuild the store")
        if not has_files and not may_make:
            raise CorruptState("the store was deleted", where=str(self.path), next_step="rebuild the store")
        return not has_files

    def new_work(self) -> Path:
        """A directory for one bulk load, on the database's file system: RocksDB ingests its files without a copy."""
        bulk = self.path / "bulk"
        with mapped_files(bulk):
            bulk.mkdir(exist_ok=True)
            return Path(tempfile.mkdtemp(dir=bulk))

    def new_reader(self) -> Path:
        readers = self.path / "readers"
        with mapped_files(readers):
            readers.mkdir(exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=readers))

    def sweep(self) -> None:
        """Removes what earlier processes left. Only the writer may: it knows that no other bulk load is running."""
        shutil.rmtree(self.path / "bulk", ignore_errors=True)
        readers = self.path / "readers"
        with contextlib.suppress(FileNotFoundError), files.mapped_files(readers):
            for reader in readers.iterdir():
                process = reader.name.partition("-")[0]
                if not (process.isdigit() and Path("/proc", process).exists()):
                    shutil.rmtree(reader, ignore_errors=True)
