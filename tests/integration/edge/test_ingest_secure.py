"""Ingest over the secure listener of brokers: what a user may not do is said at the start, by name."""

import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from enrich.dev import temporary_stack
from enrich.dev.servers.secure import GUEST
from tests.support.edge.ingesting import running, sent, write_config
from tests.support.kafka.topics import Cluster
from tests.support.waiting import GUARD_S


@pytest.fixture(scope="module")
def secure():
    with temporary_stack(quiet=True, secure=True) as addresses:
        yield addresses


def grant(secure, topic, operation):
    admin = AdminClient({"bootstrap.servers": secure.bootstrap_servers})
    rights = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{GUEST}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    for future in admin.create_acls([rights]).values():
        future.result(30)


def failed(path):
    command = [sys.executable, "-m", "edge_service", "ingest", "-c", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_right_or_a_password_that_is_wrong_ends_it_and_with_both_right_events_are_taken(secure, tmp_path):
    def config(password):
        security = {
            "protocol": "SASL_SSL",
            "mechanism": "SCRAM-SHA-512",
            "username": GUEST,
            "password": password,
            "ca_file": secure.secure_ca_file,
        }
        shown = ", ".join(f"{name}: '{value}'" for name, value in security.items())
        return write_config(
            tmp_path / "pipeline.yaml",
            f"{secure.secure_bootstrap_servers}', security: {{{shown}}}}}  # '",
            "ingest:\n  plays: {listen: '127.0.0.1:0', path: /p, topic: plays, format: json}\n",
        )

    cluster = Cluster({"bootstrap.servers": secure.bootstrap_servers})
    cluster.topics.create("plays")
    assert "this user lacks DESCRIBE on topic plays" in failed(config(secure.secure_password))
    grant(secure, "plays", AclOperation.DESCRIBE)
    told = failed(config(secure.secure_password))
    assert "this user lacks WRITE on topic plays" in told
    assert "ingest.plays.topic" in told
    wrong = failed(config("wrong-pass-word"))
    assert "kafka.security" in wrong
    assert "wrong-pass-word" not in wrong
    grant(secure, "plays", AclOperation.WRITE)
    with running(config(secure.secure_password)) as ingest:
        assert sent(ingest.url("plays"), "{}") == 200
    assert [message.value() for message in cluster.messages("plays")] == [b"{}"]
