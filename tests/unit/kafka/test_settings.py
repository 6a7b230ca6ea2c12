"""One kafka section in both dialects: the table of what becomes what, accepted by the clients themselves."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.java_gateway import JavaGateway, get_field

from enrich.base.errors import ConfigError
from enrich.config import KafkaSection, Role
from enrich.config.sections.kafka.client_settings import CLIENT_SETTINGS, ClientSetting
from enrich.config.sections.kafka.rules import kafka_rules
from enrich.config.types.fields import Between
from enrich.kafka.clients.making import (
    new_admin_client,
    new_assigned_consumer,
    new_group_consumer,
    new_producer,
    new_store_consumer,
)
from enrich.kafka.clients.settings import (
    SECRET_SETTINGS,
    java_properties,
    librdkafka_settings,
    masked,
    member_settings,
    spark_options,
)
from enrich.kafka.native_topics import NativeTopics
from enrich.kafka.writing.transactions import TransactionalProducer

# Made with openssl for these tests, valid for a hundred years, and trusted by nothing.
PEM = Path(__file__).parent / "pem"
CA, CERT, KEY = (str(PEM / name) for name in ("ca.pem", "client.pem", "client.key"))
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def section(security: dict[str, Any] | None = None, client: dict[str, Any] | None = None) -> KafkaSection:
    data = {"bootstrap_servers": "a:9092,b:9092", "security": security, "client": client or {}}
    return KafkaSection.model_validate(data)


def sasl(protocol: str, mechanism: str, **more: str) -> dict[str, str]:
    return {"protocol": protocol, "mechanism": mechanism, "username": "alice", "password": 'p"w\\', **more}


def login(module: str) -> str:
    return f'{module} required username="alice" password="p\\"w\\\\";'


CA_TEXT, CERT_TEXT, KEY_TEXT = (Path(path).read_text() for path in (CA, CERT, KEY))
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": CA_TEXT}
OWN = {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": CERT_TEXT, "ssl.keystore.key": KEY_TEXT}

DIALECTS: list[tuple[str, dict[str, str] | None, dict[str, str], dict[str, str]]] = [
    ("nothing", None, {}, {}),
    ("PLAINTEXT", {"protocol": "PLAINTEXT"}, {"security.protocol": "PLAINTEXT"}, {"security.protocol": "PLAINTEXT"}),
    ("SSL", {"protocol": "SSL"}, {"security.protocol": "SSL"}, {"security.protocol": "SSL"}),
    (
        "SSL with an authority",
        {"protocol": "SSL", "ca_file": CA},
        {"security.protocol": "SSL", **TRUST},
        {"security.protocol": "SSL", "ssl.ca.pem": CA_TEXT},
    ),
    (
        "mutual TLS",
        {"protocol": "SSL", "ca_file": CA, "cert_file": CERT, "key_file": KEY},
        {"security.protocol": "SSL", **TRUST, **OWN},
        {
            "security.protocol": "SSL",
            "ssl.ca.pem": CA_TEXT,
            "ssl.certificate.pem": CERT_TEXT,
            "ssl.key.pem": KEY_TEXT,
        },
    ),
    *[
        (
            f"{protocol} with {mechanism}",
            sasl(protocol, mechanism),
            {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.jaas.config": login(module)},
            {
                "security.protocol": protocol,
                "sasl.mechanism": mechanism,
                "sasl.username": "alice",
                "sasl.password": 'p"w\\',
            },
        )
        for protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        for mechanism, module in (("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM))
    ],
    (
        "SASL_SSL with certificates",
        sasl("SASL_SSL", "PLAIN", ca_file=CA, cert_file=CERT, key_file=KEY),
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": login(PLAIN),
            **TRUST,
            **OWN,
        },
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": 'p"w\\',
            "ssl.ca.pem": CA_TEXT,
            "ssl.certificate.pem": CERT_TEXT,
            "ssl.key.pem": KEY_TEXT,
        },
    ),
]


@pytest.mark.parametrize(("security", "java", "librdkafka"), [pytest.param(*rest, id=name) for name, *rest in DIALECTS])
def test_security_in_both_dialects(
    security: dict[str, str] | None, java: dict[str, str], librdkafka: dict[str, str]
) -> None:
    kafka = section(security)
    servers = {"bootstrap.servers": "a:9092,b:9092"}
    assert java_properties(kafka) == servers | java
    assert spark_options(kafka) == {f"kafka.{name}": value for name, value in (servers | java).items()}
    assert librdkafka_settings(kafka) == servers | librdkafka
    construct(kafka)


def construct(kafka: KafkaSection) -> None:
    """librdkafka checks names, values, certificates and keys when a client is made, before it connects."""
    quiet = {"log_level": 0, "bootstrap.servers": "localhost:1"}
    confluent_kafka.Producer({**librdkafka_settings(kafka, Role.producer), **quiet})
    confluent_kafka.Consumer({**librdkafka_settings(kafka, Role.consumer), **quiet, "group.id": "g"}).close()


TRANSLATED: list[tuple[str, Any, str, dict[str, Any]]] = [
    ("linger.ms", 5, "5", {"linger.ms": 5}),
    ("enable.metrics.push", False, "false", {"enable.metrics.push": False}),
    ("compression.type", "zstd", "zstd", {"compression.type": "zstd"}),
    ("client.id", "plays", "plays", {"client.id": "plays"}),
    ("request.timeout.ms", 5000, "5000", {"socket.timeout.ms": 5000}),
    ("max.request.size", 2_000_000, "2000000", {"message.max.bytes": 2_000_000}),
    ("buffer.memory", 64 * 2**20, "67108864", {"queue.buffering.max.kbytes": 65536}),
    ("fetch.max.wait.ms", 100, "100", {"fetch.wait.max.ms": 100}),
    ("max.poll.records", 500, "500", {}),
]


@pytest.mark.parametrize(("name", "value", "java", "librdkafka"), TRANSLATED)
def test_a_client_setting_in_both_dialects(name: str, value: Any, java: str, librdkafka: dict[str, Any]) -> None:
    kafka = section(client={name: value})
    servers = {"bootstrap.servers": "a:9092,b:9092"}
    assert java_properties(kafka) == {**servers, name: java}
    assert spark_options(kafka)[f"kafka.{name}"] == java
    assert librdkafka_settings(kafka) == servers | librdkafka


def test_a_client_gets_the_settings_of_its_role_only() -> None:
    kafka = section(client={"client.id": "c", "linger.ms": 5, "fetch.min.bytes": 1})
    assert set(librdkafka_settings(kafka, Role.common)) == {"bootstrap.servers", "client.id"}
    assert set(librdkafka_settings(kafka, Role.producer)) == {"bootstrap.servers", "client.id", "linger.ms"}
    assert set(spark_options(kafka, Role.consumer)) == {
        "kafka.bootstrap.servers",
        "kafka.client.id",
        "kafka.fetch.min.bytes",
    }


def values_of(setting: ClientSetting) -> list[Any]:
    kind: Any = setting.kind
    if isinstance(kind, Between):
        return [kind.low, kind.high]
    if kind is bool:
        return [True, False]
    return ["some text"] if kind is str else [str(member) for member in kind]


# Two settings that are bound to each other by a rule: at its end, each needs the other.
PARTNERS = {
    ("reconnect.backoff.ms", 3_600_000): {"reconnect.backoff.max.ms": 3_600_000},
    ("reconnect.backoff.max.ms", 0): {"reconnect.backoff.ms": 0},
    ("session.timeout.ms", 3_600_000): {"max.poll.interval.ms": 86_400_000},
    ("max.poll.interval.ms", 1): {"session.timeout.ms": 1, "heartbeat.interval.ms": 1},
}


@pytest.mark.parametrize("setting", [pytest.param(setting, id=setting.name) for setting in CLIENT_SETTINGS])
def test_librdkafka_takes_every_setting_at_the_ends_of_its_range(setting: ClientSetting) -> None:
    for value in values_of(setting):
        construct(section(client={setting.name: value, **PARTNERS.get((setting.name, value), {})}))


def construct_ours(kafka: KafkaSection) -> None:
    """Commands, the agent and stages give all settings to each of their clients."""
    connection = {**librdkafka_settings(kafka), "log_level": 0, "bootstrap.servers": "localhost:1"}
    new_producer(connection)
    for timeout_s in (10.0, 60.0, 900.0):
        TransactionalProducer(connection, "id", timeout_s=timeout_s)
    for consumer in (
        new_store_consumer(connection),
        new_assigned_consumer(connection, "g"),
        new_group_consumer(connection, "g"),
    ):
        consumer.close()
    new_admin_client(connection)
    NativeTopics(connection, 1.0).close()


@pytest.mark.parametrize("setting", [pytest.param(setting, id=setting.name) for setting in CLIENT_SETTINGS])
def test_each_of_our_clients_takes_every_setting_at_the_ends_of_its_range(setting: ClientSetting) -> None:
    partners = {**PARTNERS, ("linger.ms", 900_000): {"delivery.timeout.ms": 1_000_000}}
    for value in values_of(setting):
        kafka = section(client={setting.name: value, **partners.get((setting.name, value), {})})
        if not list(kafka_rules(kafka)):
            construct_ours(kafka)


def test_each_of_our_clients_takes_the_examples_of_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
    rows = re.findall(r"^\| `kafka\.client\.([^`]+)` \|.*\| `([^`]+)` \|$", text, re.MULTILINE)
    known = {setting.name: setting.kind for setting in CLIENT_SETTINGS}
    assert {name for name, _ in rows} == set(known)
    construct_ours(section(client={name: json.loads(v) if v[0].isdigit() or v == "false" else v for name, v in rows}))


@pytest.mark.parametrize("heartbeat", [1, 2_000, 5_000, 5_001, 15_000, 45_000])
def test_members_of_groups_are_heard_before_their_session_ends(heartbeat: int) -> None:
    kafka = section(client={"heartbeat.interval.ms": heartbeat})
    assert not list(kafka_rules(kafka))
    settings = member_settings(kafka)
    assert settings["heartbeat.interval.ms"] == heartbeat
    assert int(settings.get("session.timeout.ms", 45_000)) >= min(2 * heartbeat, 45_000)
    assert member_settings(section())["session.timeout.ms"] == 10_000
    given = {"session.timeout.ms": 20_000, "heartbeat.interval.ms": min(heartbeat, 20_000)}
    assert given.items() <= member_settings(section(client=given)).items()


def test_consumers_take_less_at_once_than_producers_write() -> None:
    construct_ours(section(client={"max.request.size": 10_000_000, "fetch.max.bytes": 5_000_000}))


CLIENTS = st.fixed_dictionaries(
    {},
    optional={
        setting.name: st.integers(setting.kind.low, setting.kind.high)
        if isinstance(setting.kind, Between)
        else st.sampled_from(values_of(setting))
        for setting in CLIENT_SETTINGS
    },
)


@given(CLIENTS)
def test_librdkafka_takes_every_combination_that_the_rules_take(client: dict[str, Any]) -> None:
    kafka = section(client=client)
    if not list(kafka_rules(kafka)):
        construct(kafka)


# Files


def test_only_the_certificates_of_a_file_are_handed_on(tmp_path: Path) -> None:
    file = tmp_path / "bundle.pem"
    file.write_text(f"# two authorities\n{CA_TEXT}\nsubject=x\n{CERT_TEXT}{KEY_TEXT}")
    kafka = section({"protocol": "SSL", "ca_file": str(file)})
    assert librdkafka_settings(kafka)["ssl.ca.pem"] == CA_TEXT + CERT_TEXT
    construct(kafka)


UNUSABLE = [
    ("ca_file", "missing", "cannot read {path}: No such file or directory (kafka.security.ca_file)"),
    ("ca_file", "client.key", "{path} has no PEM block CERTIFICATE, only PRIVATE KEY (kafka.security.ca_file)"),
    (
        "key_file",
        "client-sec1.key",
        "{path} has no PEM block PRIVATE KEY, only EC PRIVATE KEY (kafka.security.key_file); "
        "convert it: openssl pkcs8 -topk8 -nocrypt -in {path} -out NEW_FILE",
    ),
    (
        "key_file",
        "client-encrypted.key",
        "{path} has no PEM block PRIVATE KEY, only ENCRYPTED PRIVATE KEY (kafka.security.key_file); "
        "convert it: openssl pkcs8 -topk8 -nocrypt -in {path} -out NEW_FILE",
    ),
    ("cert_file", "../pem", "cannot read {path}: Is a directory (kafka.security.cert_file)"),
]


@pytest.mark.parametrize(("key", "name", "message"), UNUSABLE)
def test_an_unusable_file_is_told_with_its_key_and_what_to_do(key: str, name: str, message: str) -> None:
    path = str((PEM / name).resolve())
    kafka = section({"protocol": "SSL", "ca_file": CA, "cert_file": CERT, "key_file": KEY, key: path})
    for translate in (librdkafka_settings, java_properties, spark_options):
        with pytest.raises(ConfigError) as raised:
            translate(kafka)
        assert str(raised.value) == message.format(path=path)


def test_a_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    file = tmp_path / "ca.der"
    file.write_bytes(b"\x30\x82\xff")
    with pytest.raises(ConfigError, match="is not a PEM file: it is not text"):
        java_properties(section({"protocol": "SSL", "ca_file": str(file)}))


def test_a_login_without_a_password_is_a_config_error() -> None:
    """The loader refuses it earlier; a section made by hand has not gone by the rules."""
    with pytest.raises(ConfigError, match="SASL_SSL needs mechanism, username and password"):
        librdkafka_settings(section({"protocol": "SASL_SSL"}))


# Secrets


def test_settings_for_a_log_hold_no_secret() -> None:
    kafka = section(sasl("SASL_SSL", "PLAIN", cert_file=CERT, key_file=KEY))
    for translated in (librdkafka_settings(kafka), java_properties(kafka), spark_options(kafka)):
        told = str(masked(translated))
        assert 'p"w' not in told and "p\\" not in told and "PRIVATE KEY" not in told
        assert "***" in told and "a:9092" in told
    assert {"sasl.password", "sasl.jaas.config", "ssl.keystore.key", "ssl.key.pem"} <= SECRET_SETTINGS


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    jars = Path(pyspark.__file__).parent / "jars"
    (jar,) = jars.glob("py4j-*.jar")
    gateway = JavaGateway.launch_gateway(jarpath=str(jar), die_on_exit=True)
    yield gateway.jvm
    gateway.shutdown()
    gateway.java_process.stdin.close()  # at which it ends
    gateway.java_process.wait(timeout=60)


WORD, END = -3, -1  # StreamTokenizer's TT_WORD and TT_EOF


def read_jaas(jvm: Any, text: str) -> list[str]:
    """The words of a login, by the parser and in the set-up of Kafka's org.apache.kafka.common.security.JaasConfig."""
    tokens = jvm.java.io.StreamTokenizer(jvm.java.io.StringReader(text))
    tokens.slashSlashComments(True)
    tokens.slashStarComments(True)
    for character in "-_$":
        tokens.wordChars(ord(character), ord(character))
    words = []
    while (kind := tokens.nextToken()) != END:
        words.append(get_field(tokens, "sval") if kind in (WORD, ord('"')) else chr(kind))
    return words


@pytest.mark.parametrize(
    "password",
    ["plain", 'quo"te', "back\\slash", "semi;colon", "a=b c", "'", "//x", "/*x*/", "\\\\\"", "\\n",
     "line\nfeed\r", "\t", "${x}", "é€😀", "\\u0041", "\\101", "1", " "],
)  # fmt: skip
def test_java_reads_any_user_and_password_back(jvm: Any, password: str) -> None:
    kafka = section(sasl("SASL_SSL", "SCRAM-SHA-512") | {"username": f"u{password}", "password": password})
    words = read_jaas(jvm, java_properties(kafka)["sasl.jaas.config"])
    assert words == [SCRAM, "required", "username", "=", f"u{password}", "password", "=", password, ";"]
