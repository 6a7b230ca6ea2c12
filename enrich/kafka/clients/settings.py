"""One section of the configuration in both dialects: Java's properties (also as Spark's options) and librdkafka's.

Certificates and keys go in as text, never as file names, so that executors and agents on other hosts need no files.
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
"""Settings whose values no log may hold, by their names in either dialect; Spark's have `kafka.` before them."""

_LOGIN_MODULES = {
    Mechanism.plain: "org.apache.kafka.common.security.plain.PlainLoginModule",
    Mechanism.scram_sha_256: "org.apache.kafka.common.security.scram.ScramLoginModule",
    Mechanism.scram_sha_512: "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_BLOCK = re.compile(r"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----.*?-----END (?P=kind)-----", re.DOTALL)


def librdkafka_settings(kafka: KafkaSection, role: Role | None = None) -> dict[str, SettingValue]:
    """For confluent-kafka's clients. Without a role the settings of all; raises ConfigError for an unusable file."""
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


def java_properties(kafka: KafkaSection, role: Role | None = None) -> dict[str, str]:
    """For Apache Kafka's own clients. Without a role the settings of all; raises ConfigError for an unusable file."""
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
    """For Spark's Kafka source (a consumer) and sink (a producer): Java's properties under `kafka.`."""
    return {f"kafka.{name}": value for name, value in java_properties(kafka, role).items()}


def masked(settings: Mapping[str, SettingValue]) -> dict[str, SettingValue]:
    """The settings as a log may hold them."""
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
    """A string as Kafka's JaasConfig reads it, with java.io.StreamTokenizer: an end of line would end it too."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _pem_texts(security: Security) -> dict[str, str]:
    """The contents of the files: `ca`, `cert` and `key`, those that are given."""
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
    # Java's client takes PKCS#8 only, and cannot decrypt what openssl writes (PBES2, in Kafka 4.3 on Java 17).
    convert = f"convert it: openssl pkcs8 -topk8 -nocrypt -in {path} -out NEW_FILE"
    return _blocks(path, "key_file", "PRIVATE KEY", next_step=convert)


def _blocks(path: str, key: str, kind: str, *, next_step: str | None = None) -> str:
    """The PEM blocks of this kind, without the remarks and other blocks around them."""
    where = f"kafka.security.{key}"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", where=where) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no PEM file: it is not text", where=where, next_step=next_step) from None
    found = {block["kind"] for block in _BLOCK.finditer(text)}
    blocks = [block[0] for block in _BLOCK.finditer(text) if block["kind"] == kind]
    if not blocks:
        instead = f", only {', '.join(sorted(found))}" if found else ""
        raise ConfigError(f"{path} holds no PEM block {kind}{instead}", where=where, next_step=next_step)
    return "\n".join(blocks) + "\n"
