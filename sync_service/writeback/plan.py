"""What a route has to do, from its section of the configuration: names, stores, topics."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from enrich.base.errors import ConfigError
from enrich.config import Delete, Output, Pipeline, RedisForm, SyncWriteback, retry_prefix, retry_topics
from enrich.config.groups import writeback_group
from stores.external import PostgresLocation, PostgresStore, RedisAddress, RedisLocation, RedisStore, VersionedStore


@dataclass(frozen=True)
class Tier:
    """One retry topic."""

    name: str
    """The name of its route."""
    topic: str
    pause: timedelta
    next_topic: str | None
    """Where a row goes that is refused again; None: the DLQ."""


@dataclass(frozen=True)
class WritebackPlan:
    """One route of the section `sync.writeback`."""

    pipeline: str
    name: str
    section: SyncWriteback
    directory: Path = Path()
    """Directory on this host, for the file of spilled dead letters."""
    release: int = 0
    """Of the pipeline."""

    @property
    def group(self) -> str:
        return writeback_group(self.pipeline, self.name)

    @property
    def tiers(self) -> "list[Tier]":
        """The retry topics, each with the next one."""
        topics = self.retry_topics
        following = [*(name for name, _ in topics), None][1:]
        return [
            Tier(f"{self.name}.retry-{place}", topic, pause, then)
            for place, ((topic, pause), then) in enumerate(zip(topics, following, strict=True), 1)
        ]

    def old_tier(self, topic: str) -> "Tier":
        """For a retry topic of an earlier configuration: its records are tried at once, then as if they were new."""
        return Tier(f"{self.name}.retry-old", topic, timedelta(), next((name for name, _ in self.retry_topics), None))

    def group_of(self, topic: str) -> str:
        """The group that reads a retry topic of the route; it does not depend on the order of the retry topics."""
        return f"{self.group}.retry.{topic.removeprefix(retry_prefix(self.pipeline, self.name))}"

    def groups_before(self) -> list[str]:
        """The groups that may have read a retry topic in earlier releases."""
        return [f"{self.group}.retry-{place}" for place in range(1, len(self.section.retries) + 4)]

    @property
    def retry_topics(self) -> list[tuple[str, timedelta]]:
        """The name and the pause of each retry topic."""
        return retry_topics(self.pipeline, self.name, self.section.retries)

    @property
    def rewind_ms(self) -> int:
        return _milliseconds(self.section.rewind)

    @property
    def marker_ms(self) -> int:
        """How long a deleted key is remembered: until no older version of it can come by a rewind, from a retry topic
        or from the DLQ."""
        return _milliseconds(self.section.rewind + sum(self.section.retries, timedelta()) + self.section.dlq_retention)

    @property
    def versions(self) -> str:
        """What gives rows their versions where no header does: a column, with its kind. Empty: offsets."""
        name = self.section.version
        column = None if name is None else self.section.columns.find(name)
        if column is None:
            return ""
        kind = str(column.type)
        return f"{column.name} {kind if kind in ('timestamp', 'date') else 'number'}"

    @property
    def output(self) -> Output:
        output = self.section.to.redis or self.section.to.postgres
        assert output is not None  # noqa: S101 - the configuration's rules: one of the two
        return output

    @property
    def keeps_releases(self) -> bool:
        """Whether the store compares releases: a table only with a column for them."""
        postgres = self.section.to.postgres
        return postgres is None or postgres.release_column_of(self.release) is not None

    def open_store(self) -> VersionedStore:
        """Opens no connection yet."""
        timeout = {} if self.output.timeout is None else {"deadline_s": self.output.timeout.total_seconds()}
        redis, postgres, names = self.section.to.redis, self.section.to.postgres, self.section.columns.names
        if redis is not None:
            address = RedisAddress(redis.url.get_secret_value(), redis.cluster, redis.sentinel, **timeout)
            ttl_ms = 0 if redis.ttl is None else _milliseconds(redis.ttl)
            as_json = redis.as_ is RedisForm.json
            return RedisStore(address, RedisLocation(redis.key, names, as_json, ttl_ms, self.marker_ms))
        assert postgres is not None  # noqa: S101 - the configuration's rules: one of the two
        deleted = postgres.deleted_column if postgres.delete is Delete.soft else None
        location = PostgresLocation(
            postgres.table,
            postgres.key,
            postgres.columns_of(names, self.release),
            postgres.version_column,
            deleted,
            self.marker_ms,
            postgres.release_column_of(self.release),
        )
        return PostgresStore(postgres.dsn.get_secret_value(), location, **timeout)


def plans_of(pipeline: Pipeline) -> list[WritebackPlan]:
    sync = pipeline.sync
    if sync is None:
        return []
    directory = Path(pipeline.state_dir) / pipeline.name / "sync-writeback"
    return [WritebackPlan(pipeline.name, *item, directory, pipeline.release) for item in sync.writeback.items()]


def chosen_plans(pipeline: Pipeline, names: Sequence[str]) -> list[WritebackPlan]:
    """The routes of these names; all of them without a name. Raises ConfigError for a name that is none."""
    plans = {plan.name: plan for plan in plans_of(pipeline)}
    unknown = next((name for name in names if name not in plans), None)
    if unknown is not None or not plans:
        what = f"there is no write-back route `{unknown}`" if unknown else "the pipeline has no write-back routes"
        raise ConfigError(what, next_step=f"choose from {', '.join(plans)}" if plans else "name some under sync")
    return [plans[name] for name in names] if names else list(plans.values())


def _milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
