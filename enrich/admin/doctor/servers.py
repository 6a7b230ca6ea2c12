"""Checks the servers that a pipeline needs: reachable with its credentials, and configured as it needs them."""

import time
from collections.abc import Iterator
from contextlib import closing

from enrich.admin.clock import brokers_ms
from enrich.admin.cluster import Cluster
from enrich.admin.doctor.groups import of_groups
from enrich.admin.doctor.releases import of_release
from enrich.admin.doctor.verdict import Verdict, bad, good, warning
from enrich.admin.rights import grant
from enrich.admin.topics.actual import actual_topics, matching_topics, topics_of_tables
from enrich.admin.topics.checking import check_topic
from enrich.admin.topics.notes import CLOCK_KEY, NOTES_TOPIC, read_notes
from enrich.admin.topics.planning import as_others_are, needed
from enrich.admin.topics.wanted import wanted_topics
from enrich.base.errors import EnrichError
from enrich.codecs import registry_trouble
from enrich.config import Pipeline
from stores.external.redis.clients import RedisAddress, connect, takes_anyone
from stores.external.redis.errors import redis_errors

_TOLERATED_S = 1.0


def of_kafka(pipeline: Pipeline, deadline_s: float) -> Iterator[Verdict]:
    try:
        cluster = Cluster(pipeline.kafka, deadline_s)
    except EnrichError as error:
        yield bad("kafka", error.what, error.next_step)
        return
    answering = "1 broker answers" if cluster.brokers == 1 else f"{cluster.brokers} brokers answer"
    yield good("kafka", f"{answering} at {pipeline.kafka.bootstrap_servers}")
    yield from _of_topics(cluster, pipeline)
    yield from of_groups(pipeline, cluster)
    yield from of_release(pipeline, cluster)
    yield _of_clock(cluster)


def of_redis(pipeline: Pipeline) -> Iterator[Verdict]:
    """Checks every Redis that rows are written to: it must not evict rows."""
    routes = {} if pipeline.sync is None else pipeline.sync.writeback
    for name, route in routes.items():
        target = route.to.redis
        if target is None:
            continue
        address = RedisAddress(target.url.get_secret_value(), target.cluster, target.sentinel)
        try:
            with redis_errors(address.shown), closing(connect(address)) as client:
                policy = _only(client.config_get("maxmemory-policy"))
            if takes_anyone(address):
                what = f"route {name}: {address.shown} asks for no password: the one in the url was not checked"
                yield warning("redis", what, "set requirepass there, or leave the password out of the url")
        except EnrichError as error:
            yield bad("redis", f"route {name}: {error.what}", error.next_step)
            continue
        if policy in (None, "noeviction"):
            yield good("redis", f"route {name}: {address.shown} answers, and evicts nothing")
        else:
            what = f"route {name}: {address.shown} evicts rows when its memory is full ({policy})"
            yield bad(
                "redis", what, "set maxmemory-policy noeviction: a row that was evicted is a miss for its readers"
            )


def of_registry(pipeline: Pipeline, deadline_s: float) -> Iterator[Verdict]:
    if pipeline.kafka.registry is None:
        return
    trouble = registry_trouble(pipeline.kafka.registry, deadline_s)
    if trouble is None:
        yield good("registry", "the schema registry answers")
    else:
        yield bad("registry", str(trouble), trouble.next_step or "check that it runs, and kafka.registry.url")


def _only(settings: object) -> str | None:
    return next((str(value) for value in settings.values()), None) if isinstance(settings, dict) else None


def _of_topics(cluster: Cluster, pipeline: Pipeline) -> Iterator[Verdict]:
    hidden: set[str] = set()
    try:
        existing = matching_topics(pipeline, cluster)
        wanted = wanted_topics(pipeline, existing, topics_of_tables(pipeline, cluster))
        actual, notes = actual_topics(cluster, needed(wanted), hidden), read_notes(cluster)
        wanted = as_others_are(cluster, wanted, actual)
    except EnrichError as error:
        yield bad("topics", error.what, error.next_step)
        return
    findings = 0
    for name, stage in pipeline.stages.items():
        if stage.source.topic_pattern is not None and not any(map(stage.source.reads, existing)):
            findings += 1
            what = f"stage {name}: there is no topic of the pattern {stage.source.topic_pattern} that this user may see"
            yield bad("topics", what, "make one, or correct topic_pattern: the stage does not start without one")
    for name in sorted(wanted.keys() & hidden):
        findings += 1
        rights = sorted(wanted[name].rights)
        what = (
            f"{name}: this user may not see it, and lacks {', '.join(rights)}, for: {', '.join(wanted[name].used_by)}"
        )
        yield bad("topics", what, f"grant it: {grant(rights, 'topic', name)}")
    for name, topic in wanted.items():
        if name in hidden:
            continue
        checked = check_topic(cluster, topic, actual.get(name), notes.get(name), deep=False)
        findings += len(checked.findings)
        for finding in checked.findings:
            yield bad("topics", f"{name}: {finding.what}", finding.next_step)
    if not findings:
        yield good("topics", f"{len(wanted)} topics exist and are set as they should be")


def _of_clock(cluster: Cluster) -> Verdict:
    """The record for it is a tombstone, so compaction removes it."""
    unknown = "the broker's clock cannot be read"
    try:
        if not cluster.topics.is_there(NOTES_TOPIC):
            return warning("clock", f"{unknown}: topic {NOTES_TOPIC} is missing", "make it: enrich topics apply")
        before = time.time()
        found_ms = brokers_ms(cluster, NOTES_TOPIC, CLOCK_KEY)
        after = time.time()
    except EnrichError as error:
        return warning("clock", f"{unknown}: {error.what}", error.next_step or "check the brokers")
    if found_ms is None:
        setting = "message.timestamp.type=LogAppendTime"
        return warning("clock", f"{unknown}: topic {NOTES_TOPIC} lacks {setting}", "set it")
    broker = found_ms / 1000
    ahead = broker - after if broker > after else min(0.0, broker - before)
    what = f"the broker's clock differs by {abs(ahead):.1f} s"
    if abs(ahead) <= _TOLERATED_S:
        return good("clock", what)
    return bad("clock", what, "synchronise both (NTP): freshness and histories are measured by these clocks")
