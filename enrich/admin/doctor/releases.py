"""Checks the pipeline's release: whether it has fallen, and whether the tables of write-back routes can keep it."""

from collections.abc import Iterator
from contextlib import closing

from enrich.admin.cluster import Cluster
from enrich.admin.doctor.verdict import Verdict, bad, good, warning
from enrich.base.errors import EnrichError
from enrich.config import Delete, Pipeline, SyncWriteback
from enrich.config.sections.sync.targets import PostgresTarget
from enrich.kafka.releases import fallen, newest_releases
from stores.external import PostgresLocation
from stores.external.postgres.session import PostgresSession
from stores.external.postgres.table import read_table


def of_release(pipeline: Pipeline, cluster: Cluster) -> Iterator[Verdict]:
    """Nothing is said of pipelines that have no release and never had one."""
    names = {topic for stage in pipeline.stages.values() for topic in stage.outputs}
    names |= {stage.writeback.topic for stage in pipeline.stages.values() if stage.writeback is not None}
    names |= set() if pipeline.sync is None else {source.topic for source in pipeline.sync.sources.values()}
    try:
        newest = newest_releases(cluster.connection, cluster.topics, sorted(names))
    except EnrichError as error:
        yield warning("release", f"the newest records cannot be read: {error.what}", error.next_step or "try again")
        return
    found = fallen(pipeline.release, newest)
    highest = max(newest.values(), default=0)
    for what in found:
        step = f"set `release` to {highest} or more; what was replayed under the lower one has to be replayed again"
        yield warning("release", what, step)
    if pipeline.release and not found:
        yield good("release", f"it is {pipeline.release}, and no topic has newer records of a higher one")


def of_tables(pipeline: Pipeline, deadline_s: float) -> Iterator[Verdict]:
    """Checks every table that rows are written to, as the sync service does at its start."""
    routes = {} if pipeline.sync is None else pipeline.sync.writeback
    for name, route in routes.items():
        target = route.to.postgres
        if target is None:
            continue
        try:
            with (
                closing(PostgresSession(target.dsn.get_secret_value(), deadline_s)) as session,
                session.connection() as connection,
            ):
                read_table(connection, _location(route, target, pipeline.release), session.where)
        except EnrichError as error:
            yield bad("postgres", f"route {name}: {error.what}", error.next_step)
        else:
            yield good("postgres", f"route {name}: the table {target.table} can hold the rows")


def _location(route: SyncWriteback, target: PostgresTarget, release: int) -> PostgresLocation:
    return PostgresLocation(
        target.table,
        target.key,
        target.columns_of(route.columns.names, release),
        target.version_column,
        target.deleted_column if target.delete is Delete.soft else None,
        release_column=target.release_column_of(release),
    )
