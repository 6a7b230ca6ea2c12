"""A right that is taken from a running stage ends it, and the stage says which one."""

from contextlib import closing
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from enrich.base.errors import ConfigError
from enrich.dev import Addresses, temporary_stack
from enrich.dev.servers.secure import GUEST
from enrich.kafka import librdkafka_settings
from enrich.stage.progress.group import StageProgress
from tests.support.kafka.topics import Cluster
from tests.support.seed import variants
from tests.support.stage.runs import Run, running, until_all
from tests.support.stage.world import StageWorld
from tests.support.waiting import wait_until

PREFIXED, LITERAL = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL


@pytest.fixture(scope="module")
def secure():
    with temporary_stack(quiet=True, secure=True) as addresses:
        yield addresses


TAKEN = [
    (topic, event, taken)
    for topic, event in (("out", {"id": 1}), ("dlq", b"no json"))
    for taken in (AclOperation.WRITE, AclOperation.ANY)
]
"""Topics that a stage writes, an event that goes there, and what is taken: with WRITE alone it still sees the topic."""


class Rights:
    """Of the user of the stage."""

    def __init__(self, secure: Addresses) -> None:
        self._admin = AdminClient({"bootstrap.servers": secure.bootstrap_servers})

    def grant(self, kind: Any, name: str, *operations: Any, pattern: Any = LITERAL) -> None:
        who = kind, name, pattern, f"User:{GUEST}", "*"
        bindings = [AclBinding(*who, operation, AclPermissionType.ALLOW) for operation in operations]
        for future in self._admin.create_acls(bindings).values():
            future.result(30)

    def take(self, kind: Any, name: str, operation: Any = AclOperation.ANY, pattern: Any = LITERAL) -> None:
        chosen = AclBindingFilter(kind, name, pattern, f"User:{GUEST}", "*", operation, AclPermissionType.ANY)
        (future,) = self._admin.delete_acls([chosen]).values()
        assert future.result(30)


@pytest.fixture
def rights(secure):
    return Rights(secure)


@pytest.fixture
def guarded(secure, rights, tmp_path):
    """A world whose stage runs as a user that may do what it needs, and no more."""
    world = StageWorld(Cluster({"bootstrap.servers": secure.bootstrap_servers}), tmp_path)
    security = {
        "protocol": "SASL_SSL",
        "mechanism": "SCRAM-SHA-512",
        "username": GUEST,
        "password": secure.secure_password,
        "ca_file": str(secure.secure_ca_file),
    }
    world.document["kafka"] = {"bootstrap_servers": secure.secure_bootstrap_servers, "security": security}
    describe = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
    for topic, operation in (("in", AclOperation.READ), ("out", AclOperation.WRITE), ("dlq", AclOperation.WRITE)):
        rights.grant(ResourceType.TOPIC, world.topic(f"enrich.{topic}"), operation, *describe)
    own = f"enrich.{world.document['name']}.enrich"
    rights.grant(ResourceType.GROUP, own, AclOperation.READ, pattern=PREFIXED)
    rights.grant(ResourceType.TRANSACTIONAL_ID, own, AclOperation.WRITE, AclOperation.DESCRIBE, pattern=PREFIXED)
    yield world
    world.close()


def ends_as_a_refusal(run: Run, world: StageWorld, events: list[Any]) -> ConfigError:
    world.send("enrich", events)
    wait_until(lambda: run.error is not None, what="the end of the stage", deadline_s=120)
    assert isinstance(run.error, ConfigError), run.error
    return run.error


@pytest.mark.parametrize(("topic", "event", "taken"), variants(*TAKEN))
@pytest.mark.parametrize("profile", variants("realtime", "latency"))
def test_a_stage_that_may_not_write_a_topic_any_more_ends_and_names_it(
    spark, guarded, rights, profile, taken, topic, event
):
    stage = guarded.stage("enrich", [], profile=profile)
    guarded.send(stage, [{"id": 0}])
    with running(spark, guarded, stage) as run:
        until_all(guarded, stage, 1, run)
        rights.take(ResourceType.TOPIC, guarded.topic(f"enrich.{topic}"), taken)
        error = ends_as_a_refusal(run, guarded, [event])
    assert guarded.topic(f"enrich.{topic}") in str(error)
    assert "grant" in str(error.next_step)


@pytest.mark.parametrize("kind", [ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP])
def test_a_stage_in_batches_that_may_not_commit_its_offsets_any_more_ends_and_names_the_right(guarded, rights, kind):
    stage, source = guarded.stage("enrich", []), guarded.topic("enrich.in")
    connection, pipeline = librdkafka_settings(guarded.pipeline.kafka), guarded.document["name"]
    own = f"enrich.{pipeline}.enrich"
    with closing(StageProgress(connection, pipeline, stage)) as progress:
        progress.take_over()
        progress.reached({source: {0: 0}})
        progress.commit()
        rights.take(kind, own, pattern=PREFIXED)
        refused: list[ConfigError] = []

        def ends():
            try:
                progress.reached({source: {0: 0}})
            except ConfigError as error:
                refused.append(error)
            return bool(refused)

        wait_until(ends, what="the end of the stage", deadline_s=60)
    assert own in str(refused[0])
    assert "grant" in str(refused[0].next_step)


def test_a_start_without_the_right_on_its_group_names_the_group(spark, guarded, rights):
    stage = guarded.stage("enrich", [])
    own = f"enrich.{guarded.document['name']}.enrich"
    rights.take(ResourceType.GROUP, own, pattern=PREFIXED)
    error = Run(spark, guarded, stage).end()
    assert isinstance(error, ConfigError), error
    assert own in str(error.where)
    assert "grant" in str(error.next_step)


@pytest.mark.parametrize("what", variants("transactional ids", "source"))
def test_a_realtime_stage_that_may_not_use_what_it_needs_any_more_ends_and_names_it(spark, guarded, rights, what):
    stage = guarded.stage("enrich", [], profile="realtime")
    own, source = f"enrich.{guarded.document['name']}.enrich", guarded.topic("enrich.in")
    guarded.send(stage, [{"id": 0}])
    with running(spark, guarded, stage) as run:
        until_all(guarded, stage, 1, run)
        if what == "source":
            rights.take(ResourceType.TOPIC, source, AclOperation.READ)
        else:
            rights.take(ResourceType.TRANSACTIONAL_ID, own, pattern=PREFIXED)
        error = ends_as_a_refusal(run, guarded, [{"id": 1}])
    assert (source if what == "source" else own) in str(error)
    assert "grant" in str(error.next_step)
