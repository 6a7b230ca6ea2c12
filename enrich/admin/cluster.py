"""The brokers, seen by an administrator: reached, or a reason why not, before anything else is asked of them."""

import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from enrich.config import KafkaSection
from enrich.errors import ConfigError, EnrichError, Unreachable
from enrich.kafka import Connection, Topics, librdkafka_settings, new_admin_client
from enrich.kafka.errors import kafka_errors, mapped

DEADLINE_S = 30.0

_HOPELESS = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_POLL_S = 0.05
_PROBE_S = 2.0


class Cluster:
    """One connection for a command. Making it proves that the brokers answer, with these credentials."""

    def __init__(self, kafka: KafkaSection, deadline_s: float = DEADLINE_S) -> None:
        """Raises ConfigError when the brokers refuse us, Unreachable when none answers within the deadline."""
        self.connection: Connection = librdkafka_settings(kafka)
        self.deadline_s = deadline_s
        heard: list[KafkaError] = []
        protocol = "PLAINTEXT" if kafka.security is None else str(kafka.security.protocol)
        self.admin: AdminClient = new_admin_client({**self.connection, "error_cb": heard.append})
        self.description: Any = _reached(self.admin, heard, str(kafka.bootstrap_servers), protocol, deadline_s)
        self.topics = Topics(self.admin, deadline_s)

    @property
    def brokers(self) -> int:
        return len(self.description.nodes)

    def ask(self, futures: Mapping[Any, Any], where: str) -> Any:
        """The answer to a request for one thing."""
        (future,) = futures.values()
        with kafka_errors(where):
            try:
                return future.result(timeout=self.deadline_s + 5)
            except TimeoutError:
                raise Unreachable(f"no answer from the brokers within {self.deadline_s:g} s", where=where) from None


def _reached(admin: AdminClient, heard: list[KafkaError], servers: str, protocol: str, deadline_s: float) -> Any:
    """The librdkafka client tries for ever: what it tells on the way is the only word of a wrong password."""
    where = f"kafka.bootstrap_servers {servers}"
    future = admin.describe_cluster(request_timeout=deadline_s)
    with _silenced():
        _wait(future.done, admin, heard, deadline_s + 1)
    refusal = next((error for error in heard if error.code() in _HOPELESS), None)
    if refusal is not None:
        raise _refused(refusal, where)
    if future.done() and future.exception() is None:
        return future.result()
    if _is_plain(protocol) and _speaks_tls(servers):
        raise ConfigError(
            "the brokers' port is encrypted, and the connection was plain",
            where=where,
            next_step="set kafka.security.protocol to SSL or SASL_SSL, as the brokers' listener has it",
        )
    last = "" if not heard else f": {heard[0].str()}"
    raise Unreachable(
        f"no broker answered within {deadline_s:g} s{last}",
        where=where,
        next_step="check that the brokers run and that kafka.bootstrap_servers names them",
    )


def _is_plain(protocol: str) -> bool:
    return protocol in ("PLAINTEXT", "SASL_PLAINTEXT")


def _speaks_tls(servers: str) -> bool:
    """Whether the first server answers a handshake, whoever it says it is. librdkafka only says that it hung up."""
    host, _, port = servers.split(",")[0].rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent or believed
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_S) as plain:
            context.wrap_socket(plain).close()
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def _silenced() -> Iterator[None]:
    """What keeps us from the brokers is raised; the client's own lines would say it a second time."""
    log = logging.getLogger("librdkafka")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _wait(done: Callable[[], bool], admin: AdminClient, heard: list[KafkaError], deadline_s: float) -> None:
    end = time.monotonic() + deadline_s
    while not done() and time.monotonic() < end and not any(error.code() in _HOPELESS for error in heard):
        admin.poll(_POLL_S)


def _refused(error: KafkaError, where: str) -> EnrichError:
    text = error.str()
    if error.code() == KafkaError._SSL and "certificate verify failed" in text:
        return ConfigError(
            f"the brokers' certificate is not trusted: {text}",
            where=where,
            next_step="name the authority that signed it under kafka.security.ca_file",
        )
    if error.code() == KafkaError._SSL:
        return ConfigError(
            f"no encrypted connection: {text}",
            where=where,
            next_step="correct kafka.security: protocol and certificate files",
        )
    return mapped(error, where)
