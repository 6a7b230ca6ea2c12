"""Whoever cannot reach the brokers is told soon which address does not answer, and why."""

import struct
import time

import pytest

from enrich.base.errors import Unreachable
from enrich.config import load
from enrich.kafka import Topics, new_admin_client, trouble_with
from enrich.kafka.clients import reaching
from tests.support.commands import enrich, enrich_process
from tests.support.host.ending import stop_agent_of
from tests.support.links.renaming_link import RenamingLink
from tests.support.seed import variants
from tests.support.waiting import wait_until

NOBODY = "127.0.0.1:1"


@pytest.fixture
def unreachable(tmp_path, stack):
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"name: away\nkafka: {{bootstrap_servers: '{NOBODY}'}}\nstate_dir: {tmp_path}/state\n"
        "tables:\n  users: {topic: users, format: json, columns: 'plan string'}\n"
        "stages:\n  enrich:\n    source: {topic: events, format: json, schema: 'user_id string'}\n"
        "    lookups: [{table: users, key: user_id, as: user}]\n    sink: {topic: enriched, format: json}\n"
        f"    dlq: dead\n    checkpoint: {tmp_path}/checkpoint\n"
        "sync:\n  listen: '127.0.0.1:0'\n  writeback:\n    out:\n"
        "      {topic: users, format: json, columns: 'plan string', reconcile: 0, "
        f"to: {{redis: {{url: '{stack.redis_url}', key: 'away:{{key}}'}}}}}}\n"
    )
    yield path
    stop_agent_of(load(path))


def test_a_broker_that_answers_under_its_own_name_is_no_trouble(cluster):
    assert trouble_with(cluster.connection) is None


@pytest.mark.parametrize("answers", [True, False], ids=["in words", "by where the client goes"])
def test_brokers_that_are_elsewhere_than_they_say_are_told_with_the_address_that_they_say(stack, answers, monkeypatch):
    if not answers:  # the client asks whichever broker it takes, and it may take the one that is away each time
        monkeypatch.setattr(reaching, "_TRY_S", 0.0001)
    host, port = stack.bootstrap_servers.split(":")
    at, gone = host.encode() + struct.pack(">i", int(port)), host.encode() + struct.pack(">i", 1)
    for told, instead, why in ((at, gone, "refused"), (host.encode(), b"no-broker", "knows no such name")):
        with RenamingLink(host, int(port), told=told, instead=instead) as link:
            topics = Topics(new_admin_client({"bootstrap.servers": f"127.0.0.1:{link.port}"}), deadline_s=1)
            with pytest.raises(Unreachable, match=why) as raised:
                topics.identity("users")
        assert "127.0.0.1:1:" in raised.value.what or f"no-broker:{port}" in raised.value.what
        assert "advertised.listeners" in str(raised.value.next_step)


@pytest.mark.parametrize(
    "words",
    variants(
        ("table", "get", "users", "ann"),
        ("quarantine", "list", "users"),
        ("topics", "plan"),
        ("dlq", "list"),
        ("sync", "reconcile"),
        ("run", "enrich"),
    ),
    ids=" ".join,
)
def test_commands_end_soon_and_name_the_address_that_does_not_answer(unreachable, words):
    begin = time.monotonic()
    with enrich_process(*words, "-c", unreachable) as command:
        _, told = command.communicate(timeout=200)
    assert (command.returncode, f"{NOBODY}: the connection is refused" in told) == (3, True), told
    # 15 s are promised. What is over is the load of the machine: without the promise it is 30 s, or 300.
    assert time.monotonic() - begin < 25


def test_the_service_goes_on_and_says_which_address_it_waits_for(unreachable):
    with enrich_process("sync", "run", "-c", unreachable) as service:
        log, begin = service.stderr, time.monotonic()
        assert log is not None
        wait_until(lambda: f"{NOBODY}: the connection is refused" in log.readline(), what="the address")
        assert time.monotonic() - begin < 25
        service.terminate()
        service.communicate(timeout=60)
        assert service.returncode == 0
    assert enrich("doctor", "-c", unreachable, "--deadline", "1").stdout.count(f"{NOBODY}: the connection is refused")
