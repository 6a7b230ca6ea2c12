"""Sets up the comparison of `enrich table verify`: the table as readers see it, and a directory for the topic."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from enrich.admin.ready import ready_reader
from enrich.admin.verify.comparing import Comparison
from enrich.config import Pipeline
from enrich.host.ipc.header import Header
from enrich.host.ipc.lock import StoreLock
from enrich.host.ipc.store_paths import paths_of
from enrich.host.tables import topic_tables
from enrich.kafka.clients.settings import librdkafka_settings
from stores.protocol import Clock

_PREFIX = ".verify-"


@contextmanager
def comparison(
    pipeline: Pipeline,
    name: str,
    clock: Clock,
    *,
    deadline_s: float,
    report_waiting: Callable[[Header], None],
    report: Callable[[str, int], None],
) -> Iterator[Comparison]:
    """A comparison of the table, as it is now, with its topic. Raises Unreachable if the table is not ready in time."""
    table = topic_tables(pipeline)[name]
    with (
        ready_reader(pipeline, name, deadline_s, report_waiting) as (_, snapshot),
        # Beside the stores, since their disk was chosen for this amount of data.
        scratch_directory(paths_of(pipeline).folder.parent) as scratch,
    ):
        yield Comparison(
            snapshot.table(name).whole(),
            table.spec.decoder,
            table.topic,
            librdkafka_settings(pipeline.kafka),
            scratch / "rows",
            clock,
            report,
        )


@contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """A directory that is deleted afterwards. One that a killed process left is deleted when the next one is made: its
    lock is free."""
    for left in parent.glob(f"{_PREFIX}*"):
        _remove_abandoned(left)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    lock = StoreLock.try_take(directory / "lock")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if lock is not None:
            lock.release()


def _remove_abandoned(directory: Path) -> None:
    try:
        lock = StoreLock.try_take(directory / "lock")
    except OSError:
        return  # another process is removing it
    if lock is not None:
        shutil.rmtree(directory, ignore_errors=True)
        lock.release()
