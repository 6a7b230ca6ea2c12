"""Imports a snapshot into a table: it is verified completely here, then the agent, the only writer, is asked."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from enrich.base.errors import ConfigError, CorruptState, Retryable, Unreachable, WouldLoseData
from enrich.config import Pipeline
from enrich.host.ipc.header import Header
from enrich.host.ipc.imports import ImportRequest
from enrich.host.ipc.store_paths import StorePaths, paths_of
from enrich.host.load.snapshots import TopicNow, require_fits
from enrich.host.reader.spawn import ensure_agent
from enrich.host.tables import TopicTable
from enrich.kafka import Topics, TopicSettings, new_admin_client
from enrich.kafka.clients.settings import librdkafka_settings
from stores.protocol import Clock
from stores.rocks import RocksReader
from stores.snapshots import Snapshot, newest_first, open_snapshot
from stores.snapshots.files import file_errors
from stores.snapshots.manifest import NAME


def chosen_snapshot(source: Path, pipeline: str, table: str) -> Snapshot:
    """The snapshot in this directory, or the newest one of the table below it.

    Raises ConfigError if there is none, and WouldLoseData if its manifest is damaged: the newest one is never skipped
    silently.
    """
    try:
        with file_errors(source):
            is_one = (source / NAME).exists()
        if is_one:
            return open_snapshot(source)
        found = next(iter(newest_first(source / pipeline / table)), None)
    except CorruptState as error:
        raise _refused(error) from error
    if isinstance(found, CorruptState):
        raise _refused(found)
    if isinstance(found, ConfigError):
        raise found
    if found is None:
        raise ConfigError(
            f"there is no snapshot of table `{table}`",
            where=str(source / pipeline / table),
            next_step="name the directory of a snapshot, or the directory that was given to `enrich table export`",
        )
    return found


def require_good(
    snapshot: Snapshot, table: TopicTable, pipeline: Pipeline, clock: Clock, report: Callable[[int], None]
) -> None:
    """Raises WouldLoseData for a snapshot that does not fit the topic as it is now, or whose files are damaged."""
    connection = librdkafka_settings(pipeline.kafka)
    topics = Topics(new_admin_client(connection))
    topic = TopicNow(
        table.topic,
        topics.topic_id(table.topic),
        topics.start_offsets(table.topic),
        topics.end_offsets(table.topic),
        TopicSettings.of(topics.settings(table.topic)),
        clock.now_ms(),
    )
    require_fits(snapshot, table, topic)
    versions = 0
    try:
        for batch in snapshot.versions():
            versions += len(batch)
            report(versions)
    except CorruptState as error:
        raise _refused(error) from error


def require_empty(table: TopicTable, pipeline: Pipeline) -> None:
    """Raises WouldLoseData if the table has rows on this host."""
    try:
        reader = RocksReader(paths_of(pipeline).rows, {table.name: table.spec})
    except (Retryable, CorruptState):
        return  # there is no store yet, or it is damaged and the agent will recreate it
    try:
        rows = reader.snapshot().table(table.name).whole().state.rows
    except ConfigError:
        return  # a store that does not know the table
    finally:
        reader.close()
    if rows:
        raise WouldLoseData(
            f"table `{table.name}` has {rows:,} rows on this host, and an import replaces them",
            where=str(paths_of(pipeline).folder),
            next_step="add --yes; readers see the old rows until the new ones are complete",
        )


def import_by_agent(
    snapshot: Snapshot, table: TopicTable, pipeline: Pipeline, *, deadline_s: float, report: Callable[[Header], None]
) -> int:
    """Returns the number of rows after the import. Raises WouldLoseData if the agent refuses, and Unreachable at the
    deadline."""
    paths = paths_of(pipeline)
    # Requested before the agent is started: otherwise a new agent would begin to load the topic.
    request = ImportRequest(paths.imports, table.name, snapshot.path.absolute())
    end = time.monotonic() + deadline_s
    try:
        while (outcome := request.outcome()) is None:
            if time.monotonic() > end:
                raise _late(request, paths, deadline_s)
            report(ensure_agent(pipeline, holder=os.getpid))
            time.sleep(0.05)
    except BaseException:
        request.withdraw()
        raise
    if outcome.rows is None:
        raise WouldLoseData(f"the agent refused the snapshot: {outcome.refused}", where=str(snapshot.path))
    return outcome.rows


def _late(request: ImportRequest, paths: StorePaths, deadline_s: float) -> Unreachable:
    what = "was not begun and is withdrawn" if request.withdraw() else "is not finished; the agent continues it"
    return Unreachable(
        f"after {deadline_s:g} s the import {what}", where=str(paths.folder), next_step="run `enrich agent status`"
    )


def _refused(error: CorruptState) -> WouldLoseData:
    return WouldLoseData(error.what, where=error.where, next_step="use another snapshot: nothing was imported")
