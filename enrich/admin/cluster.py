"""An administrator's connection to the brokers. It is checked first: connected, or the reason why not."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError

from enrich.base.errors import Unreachable
from enrich.config import KafkaSection
from enrich.kafka import Admin, Connection, Topics, librdkafka_settings, new_admin_client, trouble_with
from enrich.kafka.clients.errors import kafka_errors
from enrich.kafka.clients.reaching import HOPELESS, PATIENCE_S, refused, servers_text

DEADLINE_S = 30.0

_POLL_S = 0.05
_LONGEST_S = 3600.0
"""The longest time-out that a client takes for a request."""


class Cluster:
    """One connection for a command. Creating it proves that the brokers answer and accept the credentials."""

    def __init__(self, kafka: KafkaSection, deadline_s: float = DEADLINE_S) -> None:
        """Raises ConfigError if the brokers refuse us, and Unreachable if none answers: after some seconds if none can
        be reached, else at the deadline."""
        self.connection: Connection = librdkafka_settings(kafka)
        self.deadline_s = deadline_s = min(deadline_s, _LONGEST_S)
        heard: list[KafkaError] = []
        self.admin: Admin = new_admin_client({**self.connection, "error_cb": heard.append})
        self.description: Any = _reached(self.admin, heard, deadline_s)
        self.topics = Topics(self.admin, deadline_s)

    @property
    def brokers(self) -> int:
        return len(self.description.nodes)

    def ask(self, futures: Mapping[Any, Any], where: str) -> Any:
        """Waits for the answer to a request about one resource."""
        (future,) = futures.values()
        with kafka_errors(where):
            try:
                return future.result(timeout=self.deadline_s + 5)
            except TimeoutError:
                raise Unreachable(f"no answer from the brokers within {self.deadline_s:g} s", where=where) from None


def _reached(admin: Admin, heard: list[KafkaError], deadline_s: float) -> Any:
    """librdkafka retries for ever: only its error callback reports a wrong password."""
    where = servers_text(admin.connection)
    patience = min(deadline_s, PATIENCE_S)
    future = admin.describe_cluster(request_timeout=deadline_s)
    with _silenced():
        _wait(future.done, admin, heard, patience)
    refusal = next((error for error in heard if error.code() in HOPELESS), None)
    if refusal is not None:
        raise refused(refusal, where)
    if not future.done() or future.exception() is not None:
        trouble = trouble_with(admin.connection)
        if trouble is not None:
            raise trouble.error()
        with _silenced():
            _wait(future.done, admin, heard, deadline_s - patience + 1)
    if future.done() and future.exception() is None:
        return future.result()
    last = "" if not heard else f": {heard[0].str()}"
    raise Unreachable(
        f"no broker answered within {deadline_s:g} s{last}",
        where=where,
        next_step="check that the brokers run and that kafka.bootstrap_servers names them",
    )


@contextmanager
def _silenced() -> Iterator[None]:
    """Silences librdkafka's log lines: the errors in them are raised anyway."""
    log = logging.getLogger("librdkafka")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _wait(done: Callable[[], bool], admin: Admin, heard: list[KafkaError], deadline_s: float) -> None:
    end = time.monotonic() + deadline_s
    while not done() and time.monotonic() < end and not any(error.code() in HOPELESS for error in heard):
        admin.poll(_POLL_S)
