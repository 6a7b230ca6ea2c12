"""Rules between the keys of the section `kafka`."""

from collections.abc import Iterator

from enrich.config.messages.problems import Finding, Path
from enrich.config.sections.kafka.client_settings import AT_MOST
from enrich.config.sections.kafka.section import KafkaSection, Registry, Security

_JAVA_REQUEST_TIMEOUT_MS = 30_000
_JAVA_LINGER_MS = 5


def kafka_rules(kafka: KafkaSection) -> Iterator[Finding]:
    if kafka.security is not None:
        yield from _security_rules(kafka.security, ("kafka", "security"))
    if kafka.registry is not None:
        yield from _registry_rules(kafka.registry, ("kafka", "registry"))
    yield from _client_rules(kafka, ("kafka", "client"))


def _security_rules(security: Security, here: Path) -> Iterator[Finding]:
    protocol = security.protocol
    about = ((*here, "protocol"),)
    for name in ("mechanism", "username", "password"):
        given = getattr(security, name) is not None
        if protocol.sasl and not given:
            yield Finding((*here, name), f"needed with protocol {protocol}", about=(*about, (*here, name)))
        if given and not protocol.sasl:
            yield Finding((*here, name), f"only for SASL_PLAINTEXT and SASL_SSL, not for {protocol}", about=about)
    for name in ("ca_file", "cert_file", "key_file"):
        if getattr(security, name) is not None and not protocol.encrypted:
            yield Finding((*here, name), f"only for SSL and SASL_SSL, not for {protocol}", about=about)
    yield from _pair_of_files(security, here)


def _registry_rules(registry: Registry, here: Path) -> Iterator[Finding]:
    if registry.password is not None and registry.username is None:
        yield Finding((*here, "password"), "needs a username", about=((*here, "username"),))
    if registry.username is not None and registry.password is None:
        yield Finding((*here, "username"), "needs a password", about=((*here, "password"),))
    yield from _pair_of_files(registry, here)


def _pair_of_files(section: Security | Registry, here: Path) -> Iterator[Finding]:
    for name, other in (("cert_file", "key_file"), ("key_file", "cert_file")):
        if getattr(section, name) is not None and getattr(section, other) is None:
            yield Finding((*here, name), f"needs {other} too", about=((*here, other),))


def _client_rules(kafka: KafkaSection, here: Path) -> Iterator[Finding]:
    given = kafka.client.given()
    for smaller, small_default, larger, large_default in AT_MOST:
        small, large = given.get(smaller, small_default), given.get(larger, large_default)
        if (smaller in given or larger in given) and int(small) > int(large):
            at = smaller if smaller in given else larger
            message = f"{smaller} ({small}) must not exceed {larger} ({large})"
            yield Finding((*here, at), message, about=((*here, smaller), (*here, larger)))
    linger = int(given.get("linger.ms", _JAVA_LINGER_MS))
    least = linger + int(given.get("request.timeout.ms", _JAVA_REQUEST_TIMEOUT_MS))
    if int(given.get("delivery.timeout.ms", least)) < least:
        names = ("delivery.timeout.ms", "linger.ms", "request.timeout.ms")
        message = f"must be at least linger.ms + request.timeout.ms, which is {least}"
        yield Finding((*here, names[0]), message, about=tuple((*here, name) for name in names))
