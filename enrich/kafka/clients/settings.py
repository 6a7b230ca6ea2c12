"""Turns the kafka section of the configuration into librdkafka settings, Java properties and Spark options.

Certificates and keys are passed as text, not as file names, so that executors and agents on other hosts need no files.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from enrich.base.errors import ConfigError
from enrich.config.sections.kafka.client_settings import CLIENT_SETTINGS, ClientSetting, Role, SettingValue
from enrich.config.sections.kafka.section import KafkaSection, Mechanism, Security

SECRET_SETTINGS = frozenset(
    {
        "sasl.password",
        "sasl.jaas.config",
        "ssl.key.pem",
        "ssl.keystore.key",
    }
)
"""Settings whose values must not be logged, by librdkafka's and Java's names; Spark's have the prefix `kafka.`."""

_LOGIN_MODULES = {
    Mechanism.plain: "org.apache.kafka.common.security.plain.PlainLoginModule",
    Mechanism.scram_sha_256: "org.apache.kafka.common.security.scram.ScramLoginModule",
    Mechanism.scram_sha_512: "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SESSION_MS = 10_000
_BLOCK = re.compile(r"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----.*?-----END (?P=kind)-----", re.DOTALL)


def librdkafka_settings(kafka: KafkaSection, role: Role | None = None) -> dict[str, SettingValue]:
    """For confluent-kafka's clients. Without a role, settings of all roles. Raises ConfigError for an unusable file."""
    settings: dict[str, SettingValue] = {"bootstrap.servers": kafka.bootstrap_servers}
    security = kafka.security
    if security is not None:
        settings["security.protocol"] = security.protocol.value
        if security.protocol.sasl:
            mechanism, username, password = _login(security)
            settings |= {"sasl.mechanism": mechanism.value, "sasl.username": username, "sasl.password": password}
        names = {"ca": "ssl.ca.pem", "cert": "ssl.certificate.pem", "key": "ssl.key.pem"}
        settings |= {names[part]: text for part, text in _pem_texts(security).items()}
    for setting, value in _client_settings(kafka, role):
        if setting.librdkafka is not None:
            settings[setting.librdkafka] = setting.for_librdkafka(value)
    return settings


def member_settings(kafka: KafkaSection) -> dict[str, SettingValue]:
    """For members of a group whose partitions go to another one soon after a kill, not only after the client's 45 s.
    The user may have other wishes."""
    given = librdkafka_settings(kafka, Role.consumer)
    soon: dict[str, SettingValue] = {"session.timeout.ms": _SESSION_MS, "heartbeat.interval.ms": 2_000}
    if int(given.get("heartbeat.interval.ms", 0)) > _SESSION_MS // 2:
        del soon["session.timeout.ms"]  # between two heartbeats the brokers would drop the member, again and again
    return {**soon, **given}


def java_properties(kafka: KafkaSection, role: Role | None = None) -> dict[str, str]:
    """For Java clients. Without a role, settings of all roles. Raises ConfigError for an unusable file."""
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    security = kafka.security
    if security is not None:
        properties["security.protocol"] = security.protocol.value
        if security.protocol.sasl:
            properties |= {"sasl.mechanism": _login(security)[0].value, "sasl.jaas.config": _jaas(security)}
        texts = _pem_texts(security)
        if "ca" in texts:
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": texts["ca"]}
        if "key" in texts:
            properties |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": texts["cert"],
                "ssl.keystore.key": texts["key"],
            }
    for setting, value in _client_settings(kafka, role):
        properties[setting.name] = str(value).lower() if isinstance(value, bool) else str(value)
    return properties


def spark_options(kafka: KafkaSection, role: Role | None = None) -> dict[str, str]:
    """For Spark's Kafka source (a consumer) and sink (a producer): Java's properties with the prefix `kafka.`."""
    return {f"kafka.{name}": value for name, value in java_properties(kafka, role).items()}


def masked(settings: Mapping[str, SettingValue]) -> dict[str, SettingValue]:
    """The settings without secrets, for logs."""
    return {name: "***" if name.removeprefix("kafka.") in SECRET_SETTINGS else v for name, v in settings.items()}


def _client_settings(kafka: KafkaSection, role: Role | None) -> Iterator[tuple[ClientSetting, SettingValue]]:
    given = kafka.client.given()
    for setting in CLIENT_SETTINGS:
        if setting.name in given and (role is None or setting.role in (Role.common, role)):
            yield setting, given[setting.name]


def _login(security: Security) -> tuple[Mechanism, str, str]:
    if security.mechanism is None or security.username is None or security.password is None:
        raise ConfigError(f"{security.protocol} needs mechanism, username and password", where="kafka.security")
    return security.mechanism, security.username, security.password.get_secret_value()


def _jaas(security: Security) -> str:
    mechanism, username, password = _login(security)
    return f"{_LOGIN_MODULES[mechanism]} required username={_quoted(username)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    """Quoted for Kafka's JaasConfig, which uses java.io.StreamTokenizer: a line break would end the string too."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _pem_texts(security: Security) -> dict[str, str]:
    """The contents of the configured files, by `ca`, `cert` and `key`."""
    if not security.protocol.encrypted:
        return {}
    texts = {}
    if security.ca_file is not None:
        texts["ca"] = _blocks(security.ca_file, "ca_file", "CERTIFICATE")
    if security.cert_file is not None and security.key_file is not None:
        texts["cert"] = _blocks(security.cert_file, "cert_file", "CERTIFICATE")
        texts["key"] = _key(security.key_file)
    return texts


def _key(path: str) -> str:
    # Java's client only accepts PKCS#8, and cannot decrypt keys that openssl encrypts (PBES2; Kafka 4.3, Java 17).
    convert = f"convert it: openssl pkcs8 -topk8 -nocrypt -in {path} -out NEW_FILE"
    return _blocks(path, "key_file", "PRIVATE KEY", next_step=convert)


def _blocks(path: str, key: str, kind: str, *, next_step: str | None = None) -> str:
    """The PEM blocks of this kind, without comments and other blocks."""
    where = f"kafka.security.{key}"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", where=where) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a PEM file: it is not text", where=where, next_step=next_step) from None
    found = {block["kind"] for block in _BLOCK.finditer(text)}
    blocks = [block[0] for block in _BLOCK.finditer(text) if block["kind"] == kind]
    if not blocks:
        instead = f", only {', '.join(sorted(found))}" if found else ""
        raise ConfigError(f"{path} has no PEM block {kind}{instead}", where=where, next_step=next_step)
    return "\n".join(blocks) + "\n"
