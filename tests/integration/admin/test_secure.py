"""Over the secure listener: who may, does; who may not, does not know the word, or does not trust, is told so."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from enrich.admin import cluster
from enrich.admin.rating.generating import KafkaTarget
from enrich.admin.topics.notes import NOTES_TOPIC, Note, ensure_notes_topic, write_notes
from enrich.base.errors import ConfigError
from enrich.config import load
from enrich.dev import Addresses, temporary_stack
from enrich.dev.servers.secure import GUEST
from enrich.kafka import DeliveringProducer, Topics, librdkafka_settings, new_admin_client
from enrich.kafka.writing.dead_letters import Origin, dead_letter
from tests.support.commands import enrich, enrich_process, lines
from tests.support.host.ending import stop_agent_of
from tests.support.kafka.topics import Cluster
from tests.support.seed import SOAK
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def secure():
    with temporary_stack(quiet=True, secure=True) as addresses:
        yield addresses


@pytest.fixture
def config_of(secure: Addresses, tmp_path):
    """A pipeline's file with this section of `kafka.security`."""
    written: list[Path] = []

    def write(**changes):
        security = {
            "protocol": "SASL_SSL",
            "mechanism": "SCRAM-SHA-512",
            "username": secure.secure_username,
            "password": secure.secure_password,
            "ca_file": secure.secure_ca_file,
            **changes,
        }
        shown = ", ".join(f"{name}: '{value}'" for name, value in security.items() if value is not None)
        path = tmp_path / f"pipeline-{len(written)}.yaml"
        path.write_text(
            f"name: test\nkafka: {{bootstrap_servers: '{secure.secure_bootstrap_servers}', security: {{{shown}}}}}\n"
            f"state_dir: {tmp_path}/state\n"
            "tables:\n  users: {topic: users, format: json, columns: 'plan string'}\n"
            "sync:\n  writeback:\n    to_redis:\n      {topic: users, format: json, columns: 'plan string', "
            f"to: {{redis: {{url: '{secure.redis_url}', key: 'user:{{key}}', as: hash}}}}}}\n"
            "stages:\n  enrich:\n    source: {topic: events, format: json, schema: 'user_id string'}\n"
            "    lookups: [{table: users, key: user_id, as: user}]\n    sink: {topic: enriched, format: json}\n"
            f"    dlq: dead\n    checkpoint: {tmp_path}/checkpoint\n"
        )
        written.append(path)
        return path

    yield write
    for path in written:
        stop_agent_of(load(path))


def grant(secure, operation, kind=ResourceType.TOPIC, name="users"):
    admin = AdminClient({"bootstrap.servers": secure.bootstrap_servers})
    rights = AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{GUEST}", "*", operation, AclPermissionType.ALLOW
    )
    for future in admin.create_acls([rights]).values():
        future.result(30)


def test_an_authorised_user_makes_topics_changes_rows_and_reads_them_by_agent_and_sync(secure, config_of):
    config = config_of()
    assert enrich("topics", "apply", "--yes", "-c", config).returncode == 0
    assert enrich("table", "put", "users", "ann", '{"plan": "pro"}', "-c", config).returncode == 0
    (row,) = lines(enrich("table", "get", "users", "ann", "-c", config, "--json"))
    assert row["value"] == {"plan": "pro"}
    assert enrich("topics", "check", "users", "-c", config).returncode == 0
    command = [sys.executable, "-m", "sync_service", "reconcile", "to_redis", "--repair", "-c", str(config), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_user_without_rights_is_told_which_one_is_missing(secure, config_of):
    assert enrich("topics", "apply", "--yes", "-c", config_of()).returncode in (0, 4)
    # An empty topic needs no reading.
    assert enrich("table", "put", "users", "ann", '{"plan": "pro"}', "-c", config_of()).returncode == 0
    guest = config_of(username=GUEST)

    def lacks(right, *arguments):
        def is_told():
            done = enrich(*arguments, "-c", guest)
            assert (done.returncode, done.stdout) == (2, ""), done
            return f"lacks the right {right}" in done.stderr

        wait_until(is_told, what=f"being told of {right}")  # brokers take a moment to learn of a grant

    put = ("table", "put", "users", "ann", '{"plan": "max"}')
    lacks("DESCRIBE on topic users", "topics", "plan", "users")
    grant(secure, AclOperation.DESCRIBE)
    lacks("DESCRIBE_CONFIGS on topic users", "topics", "plan", "users")
    lacks("READ on topic users", "table", "get", "users", "ann", "--from-topic")
    grant(secure, AclOperation.DESCRIBE_CONFIGS)
    lacks("WRITE on transactional-id enrich.admin.test.users", *put)
    grant(secure, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "enrich.admin.test.users")
    lacks("WRITE on topic users", *put)
    checked = enrich("topics", "check", "users", "-c", guest, "--json")
    (finding,) = [one for one in lines(checked)[0]["findings"] if one["problem"] == "rights_missing"]
    assert "READ" in finding["what"]
    assert "kafka-acls --add" in finding["next"] and "--operation READ" in finding["next"]

    group = "enrich.sync.test.to_redis"

    def told_of():
        found = [verdict for verdict in lines(enrich("doctor", "-c", guest, "--json")) if verdict["check"] == "rights"]
        return [verdict["next"] for verdict in found if verdict["level"] == "bad" and group in verdict["what"]]

    assert told_of() == [
        f"grant it: kafka-acls --add --allow-principal User:{GUEST} --operation READ --group {group} "
        "--resource-pattern-type prefixed"
    ]
    grant(secure, AclOperation.READ, ResourceType.GROUP, group)
    wait_until(lambda: not told_of(), what="the right on the group")


def test_who_reads_from_offsets_needs_no_right_on_a_group(secure, config_of):
    """The rights of the page, and no more: the client asks for a group's coordinator all the same."""
    owner, guest = config_of(), config_of(username=GUEST)
    assert enrich("topics", "apply", "--yes", "-c", owner).returncode in (0, 4)
    assert enrich("table", "put", "users", "ann", '{"plan": "pro"}', "-c", owner).returncode == 0
    for right in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
        grant(secure, right)

    def read(*how):
        done = enrich("table", "get", "users", "ann", *how, "-c", guest, "--json")
        return [row["value"] for row in lines(done)]

    wait_until(lambda: read("--from-topic") == [{"plan": "pro"}], what="the topic's row", deadline_s=60)
    assert read() == [{"plan": "pro"}]  # by an agent


def test_who_sends_letters_back_is_told_which_right_on_their_topic_is_missing(secure, config_of):
    owner, guest = config_of(), config_of(username=GUEST)
    assert enrich("topics", "apply", "--yes", "-c", owner).returncode in (0, 4)
    with DeliveringProducer({"bootstrap.servers": secure.bootstrap_servers}) as producer:
        for topic in ("events", "enriched"):
            letter = dead_letter(Origin(topic, 0, 1, b"k", b"v"), "no json", stage="enrich", sender="")
            producer.produce("dead", letter.key, letter.value, headers=letter.headers)
    for command in (("list",), ("replay", "--all", "--dry-run"), ("purge", "--all")):
        done = enrich("dlq", *command, "-c", guest)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert "this user lacks the right DESCRIBE on topic dead" in done.stderr
    grant(secure, AclOperation.READ, name="dead")

    def skipped():
        done = enrich("dlq", "replay", "--all", "--dry-run", "--json", "--dlq", "dead", "-c", guest)
        return [line["skipped"] for line in lines(done)] if done.returncode == 1 else []

    hidden = {"this user lacks the right DESCRIBE on its topic, or there is none": 2}
    wait_until(lambda: skipped() == [hidden], what="the letters whose topics this user may not see")
    grant(secure, AclOperation.WRITE, name="events")

    def told():
        done = enrich("dlq", "replay", "--all", "--dry-run", "-c", guest)
        assert (done.returncode, done.stdout) == (2, ""), done
        return "this user lacks the right DESCRIBE_CONFIGS on topic events" in done.stderr

    wait_until(told, what="being told of the right")


def test_what_this_user_may_not_see_is_not_said_to_be_missing(secure, config_of):
    """Or to be lost: the audit would find no dead letter in a DLQ that it does not see."""
    added = "observe: {}\nexpel:\n  out: {topic: delivered, to: {http: {url: 'https://example.com'}}, retries: []}\n"
    owner, guest = config_of(), config_of(username=GUEST)
    for path in (owner, guest):
        path.write_text(path.read_text() + added)
    assert enrich("topics", "apply", "--yes", "-c", owner).returncode in (0, 4)

    def lacks(topic, *command):
        done = enrich(*command, "-c", guest)
        return (done.returncode, done.stdout) == (2, "") and f"lacks the right READ on topic {topic}" in done.stderr

    found = [verdict for verdict in lines(enrich("doctor", "-c", guest, "--json")) if verdict["check"] == "topics"]
    told = {verdict["what"].partition(":")[0]: verdict["next"] for verdict in found if verdict["level"] == "bad"}
    assert {"delivered", "test.out.dlq", "test.holds", "test.minutes", "test.ratings", "test.tallies"} <= told.keys()
    assert "--operation READ --operation WRITE --topic test.minutes" in told["test.minutes"]
    assert lacks("test.minutes", "observe", "loss", "--for", "1h")
    assert lacks("test.ratings", "rate", "show")
    assert lacks("delivered", "observe", "trace", "delivered/0/0")
    for name in ("delivered", "test.tallies"):
        for right in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
            grant(secure, right, name=name)

    def is_told_of_the_dlq():  # in a process of its own: the command becomes a program
        day = datetime.now(UTC).strftime("%Y-%m-%d")
        with enrich_process("observe", "audit", "--day", day, "--route", "out", "-c", guest) as process:
            out, err = process.communicate(timeout=180)
        assert (process.returncode, out) == (2, ""), err
        return "lacks the right READ on topic test.out.dlq" in err

    wait_until(is_told_of_the_dlq, what="being told of the DLQ", deadline_s=60)


def test_who_may_not_note_the_format_of_a_topic_is_told_the_right_and_the_topic(secure, config_of):
    owner, guest = load(config_of()), load(config_of(username=GUEST))
    ensure_notes_topic(cluster.Cluster(owner.kafka))
    with pytest.raises(ConfigError, match=f"lacks the right WRITE on topic {NOTES_TOPIC}"):
        write_notes(cluster.Cluster(guest.kafka), {"users": Note("id", "json")})


def test_a_rating_whose_events_may_not_be_written_names_the_topic_and_the_right(secure, config_of):
    assert enrich("topics", "apply", "--yes", "-c", config_of()).returncode in (0, 4)
    target = KafkaTarget(librdkafka_settings(load(config_of(username=GUEST)).kafka), "enriched")
    try:
        target.send([b"{}"], 0)
        told = target.close().why
    except OSError as error:
        told = str(error)
    assert "topic enriched" in str(told)
    assert "grant this user the rights on the topic" in str(told)


def test_whoever_asks_for_a_topic_s_settings_is_told_which_right_is_missing(secure, config_of):
    assert enrich("topics", "apply", "--yes", "-c", config_of()).returncode in (0, 4)
    guest = librdkafka_settings(load(config_of(username=GUEST)).kafka)
    with pytest.raises(ConfigError, match=r"authorization failed.*grant this user DESCRIBE_CONFIGS on the topic"):
        Topics(new_admin_client(guest)).settings("enriched")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"password": "wrong"}, "user name, password and mechanism"),
        ({"ca_file": None}, "certificate is not trusted"),
        (
            {"protocol": "PLAINTEXT", "mechanism": None, "username": None, "password": None, "ca_file": None},
            "port is encrypted, and the connection was plain",
        ),
    ],
    ids=["wrong password", "untrusted certificate", "plain to the secure port"],
)
def test_what_keeps_us_from_the_brokers_is_told(config_of, changes, told):
    done = enrich("topics", "plan", "-c", config_of(**changes), "--deadline", "4")
    assert (done.returncode, told in done.stderr) == (2, True), done


if SOAK:  # the start of Spark is too long for the quick rounds

    def test_a_stage_runs_over_it_and_its_dead_letters_are_read(config_of):
        config = config_of()
        assert enrich("topics", "apply", "--yes", "-c", config).returncode == 0
        assert enrich("table", "put", "users", "ann", '{"plan": "pro"}', "-c", config).returncode == 0
        cluster = Cluster(librdkafka_settings(load(config).kafka))
        cluster.produce("events", [(b"k", b'{"user_id": "ann"}'), (b"k", b"nonsense")])
        with enrich_process("run", "enrich", "-c", config) as stage:
            wait_until(lambda: cluster.messages("enriched"), what="an enriched event")
            stage.terminate()
            stage.communicate(timeout=180)
        assert [message.value() for message in cluster.messages("enriched")] == [
            b'{"user_id": "ann","user":{"plan":"pro"}}'
        ]
        assert len(lines(enrich("dlq", "list", "-c", config, "--json"))) == 1
