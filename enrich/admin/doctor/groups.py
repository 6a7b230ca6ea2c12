"""Checks whether this user may be a member of a pipeline's consumer groups."""

from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin._acl import AclOperation

from enrich.admin.cluster import Cluster
from enrich.admin.doctor.verdict import Verdict, bad, good, warning
from enrich.admin.rights import grant
from enrich.config import Pipeline
from enrich.config.groups import expel_group, retrier_group, source_group, stage_group, writeback_group


def groups_of(pipeline: Pipeline) -> Mapping[str, str]:
    """Group -> owner. The groups of retry topics and of Spark's own consumers have these names as prefixes."""
    groups = {stage_group(pipeline.name, name): f"stage {name}" for name in pipeline.stages}
    if pipeline.sync is not None:
        groups |= {writeback_group(pipeline.name, name): f"route {name}" for name in pipeline.sync.writeback}
        groups |= {source_group(pipeline.name, name): f"source {name}" for name in pipeline.sync.sources}
    groups |= {expel_group(pipeline.name, name): f"route {name}" for name in pipeline.expel}
    groups |= {retrier_group(pipeline.name, name): f"retries of {name}" for name in pipeline.expel}
    return groups


def of_groups(pipeline: Pipeline, cluster: Cluster) -> Iterator[Verdict]:
    groups = groups_of(pipeline)
    if not groups:
        return
    security = pipeline.kafka.security
    user = None if security is None else security.username
    lacking = 0
    for group, owner in groups.items():
        try:
            allowed = _may_read(cluster, group)
        except KafkaException as error:
            yield warning("rights", f"{owner}: group {group}: {error.args[0].str()}", "check the brokers")
            lacking += 1
            continue
        if not allowed:
            what = f"{owner}: this user lacks READ on group {group}"
            yield bad("rights", what, f"grant it: {grant(['READ'], 'group', group, user=user, prefixed=True)}")
            lacking += 1
    if not lacking:
        yield good("rights", f"this user may read in each consumer group ({len(groups)})")


def _may_read(cluster: Cluster, group: str) -> bool:
    futures = cluster.admin.describe_consumer_groups(
        [group], include_authorized_operations=True, request_timeout=cluster.deadline_s
    )
    try:
        allowed = futures[group].result(timeout=cluster.deadline_s + 5).authorized_operations
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return False
        if code == KafkaError.GROUP_ID_NOT_FOUND:
            return True  # the group does not exist yet, and this user has the right to learn that
        raise
    # None: the broker does not say.
    return not allowed or AclOperation.READ in allowed or AclOperation.ALL in allowed
