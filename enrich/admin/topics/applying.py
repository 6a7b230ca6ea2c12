"""Applies a plan topic by topic. Each topic is checked once more before it is changed."""

from collections.abc import Callable, Mapping
from itertools import groupby

from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions

from enrich.admin.cluster import Cluster
from enrich.admin.rights import needs
from enrich.admin.topics.notes import Note, ensure_notes_topic, write_notes
from enrich.admin.topics.planning import Kind, Plan, Step, plan_for, with_followed
from enrich.admin.topics.wanted import Wanted
from enrich.base.errors import WouldLoseData


def apply(
    cluster: Cluster, wanted: Mapping[str, Wanted], plan: Plan, report: Callable[[Step], None] = lambda _: None
) -> None:
    """Raises WouldLoseData for a topic that changed since the plan was made; the topics before it are done.

    Each topic is created or changed by one request, so an interruption leaves no topic half changed. The next plan
    shows what is left.
    """
    for name, steps in groupby(plan.to_do, key=lambda step: step.topic):
        listed = list(steps)
        _require_as_shown(cluster, with_followed(wanted, name), name, listed)
        made = [step for step in listed if step.kind is Kind.create]
        if made:
            _create(cluster, name, made)
        changed = [step for step in listed if step.kind is Kind.set]
        if changed:
            _set(cluster, name, changed)
        for step in listed:
            if step.kind is Kind.partitions:
                _add_partitions(cluster, name, int(step.after or 0))
            elif step.kind is Kind.record:
                record_format(cluster, name, step.after)
            report(step)


def record_format(cluster: Cluster, topic: str, form: str | None) -> None:
    ensure_notes_topic(cluster)
    write_notes(cluster, {topic: Note(cluster.topics.topic_id(topic), form)})


def _require_as_shown(cluster: Cluster, wanted: Mapping[str, Wanted], name: str, shown: list[Step]) -> None:
    now = [step for step in plan_for(cluster, wanted).to_do if step.topic == name]
    if now != shown:
        raise WouldLoseData(
            "the topic has changed since the plan was shown",
            where=f"topic {name}",
            next_step="review the new plan: enrich topics plan",
        )


def _create(cluster: Cluster, name: str, steps: list[Step]) -> None:
    given = {step.what: step.after or "" for step in steps}
    partitions, replication = int(given.pop("partitions")), int(given.pop("replication", -1))
    with needs("CREATE", f"topic {name}"):
        cluster.topics.create(name, partitions=partitions, replication=replication, config=given)


def _set(cluster: Cluster, name: str, steps: list[Step]) -> None:
    entries = [ConfigEntry(s.what, s.after, incremental_operation=AlterConfigOpType.SET) for s in steps]
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
    futures = cluster.admin.incremental_alter_configs([resource], request_timeout=cluster.deadline_s)
    with needs("ALTER_CONFIGS", f"topic {name}"):
        cluster.ask(futures, f"topic {name}")


def _add_partitions(cluster: Cluster, name: str, partitions: int) -> None:
    futures = cluster.admin.create_partitions(
        [NewPartitions(name, partitions)],
        operation_timeout=cluster.deadline_s,
        request_timeout=cluster.deadline_s,
    )
    cluster.ask(futures, f"topic {name}")
