"""Finds out why brokers cannot be reached. The client only reports that it waits; here each address is probed.

The client that cannot reach them is not asked: a new one tries, and reports what prevents it.
"""

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from enrich.base.errors import ConfigError, EnrichError, Unreachable
from enrich.kafka.clients.errors import kafka_errors, mapped
from enrich.kafka.clients.making import Connection
from enrich.kafka.clients.probing import Address, Trouble, addresses_of, troubles

PATIENCE_S = 8.0
"""How long brokers may be silent before the reason is looked for. With that a user waits less than 15 s in all."""

HOPELESS = (KafkaError._AUTHENTICATION, KafkaError._SSL)
"""Errors that the client retries forever and only reports to its error callback."""

_ASK_S = 4.0
_POLL_S = 0.05
_TRY_S = 0.5
"""The client asks any broker that it knows, reachable or not: one of many short tries meets a reachable one."""
_FROM_METADATA = re.compile(r"(?P<host>\S+):(?P<port>[0-9]+)/[0-9]+: ")
"""How the client's errors name a broker from the metadata, unlike one of bootstrap.servers (`/bootstrap`)."""

_quiet = logging.getLogger("enrich.kafka.probe")
_quiet.propagate = False
_quiet.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Why:
    """Why the brokers cannot be reached. It can be raised as an error several times.

    Not kept as an exception: the traceback of one that was raised refers to its callers' variables, such as a client
    with a request in flight, and would keep that alive.
    """

    kind: type[EnrichError]
    what: str
    where: str | None
    next_step: str | None

    @classmethod
    def of(cls, error: EnrichError) -> "Why":
        return cls(type(error), error.what, error.where, error.next_step)

    def error(self) -> EnrichError:
        return self.kind(self.what, where=self.where, next_step=self.next_step)


def trouble_with(connection: Connection) -> Why | None:
    """Why no broker can be reached; None if one can. Takes a few seconds at most.

    A ConfigError if the connection's settings are wrong, else Unreachable.
    """
    return _diagnose(connection).why


def explained(connection: Connection, error: EnrichError) -> Why:
    """Replaces an error that only reports a time-out: says which address does not answer, and why."""
    diagnosis = _diagnose(connection)
    if diagnosis.why is not None:
        return diagnosis.why
    if not diagnosis.some_unreachable:
        return Why.of(error)
    what = f"{error.what}; some brokers do not answer: {_listed(diagnosis.some_unreachable)}"
    return replace(Why.of(error), what=what)


def refused(error: KafkaError, where: str) -> EnrichError:
    """A ConfigError with a helpful message for one of HOPELESS."""
    text = error.str()
    if error.code() == KafkaError._SSL and "certificate verify failed" in text:
        return ConfigError(
            f"the brokers' certificate is not trusted: {text}",
            where=where,
            next_step="set kafka.security.ca_file to the certificate of the authority that signed it",
        )
    if error.code() == KafkaError._SSL:
        return ConfigError(
            f"no encrypted connection: {text}",
            where=where,
            next_step="correct kafka.security: protocol and certificate files",
        )
    return mapped(error, where)


def servers_text(connection: Connection) -> str:
    return f"kafka.bootstrap_servers {connection['bootstrap.servers']}"


@dataclass(frozen=True)
class _Diagnosis:
    why: Why | None
    some_unreachable: Mapping[Address, Trouble] = field(default_factory=dict)
    """Brokers that do not answer although others do."""


def _diagnose(connection: Connection) -> _Diagnosis:
    where, encrypted = servers_text(connection), "SSL" in str(connection.get("security.protocol", "")).upper()
    given = addresses_of(str(connection["bootstrap.servers"]))
    unreachable = troubles(given, encrypted=encrypted)
    if given and all(address in unreachable for address in given):
        return _Diagnosis(_none_answers(unreachable, where))
    advertised = _advertised(connection, where)
    if isinstance(advertised, Why):
        return _Diagnosis(advertised)
    unreached = troubles(advertised, encrypted=encrypted)
    if advertised and all(address in unreached for address in advertised):
        return _Diagnosis(
            Why(
                Unreachable,
                f"the brokers answer, but advertise addresses where nobody answers: {_listed(unreached)}",
                where,
                "correct advertised.listeners of the brokers, or make these addresses reachable from this host",
            )
        )
    return _Diagnosis(None, {**unreachable, **unreached})


def _none_answers(unreachable: Mapping[Address, Trouble], where: str) -> Why:
    first = next(iter(unreachable.values()))
    setting = next((trouble for trouble in unreachable.values() if trouble.is_setting), None)
    if setting is not None:
        return Why(ConfigError, setting.what, where, setting.next_step)
    return Why(Unreachable, f"no broker answers: {_listed(unreachable)}", where, first.next_step)


def _advertised(connection: Connection, where: str) -> list[Address] | Why:
    """The brokers' advertised addresses, or why they do not answer us."""
    reported: list[KafkaError] = []
    with kafka_errors(where):
        settings: dict[str, Any] = {**connection, "error_cb": reported.append, "logger": _quiet}
        client = AdminClient(settings)
    end = time.monotonic() + _ASK_S
    last = ""
    while time.monotonic() < end:
        try:
            metadata = client.list_topics(timeout=_TRY_S)
        except KafkaException as error:
            last = error.args[0].str()
        else:
            return [Address(str(broker.host), int(broker.port)) for broker in metadata.brokers.values()]
        client.poll(_POLL_S)
        refusal = next((error for error in reported if error.code() in HOPELESS), None)
        if refusal is not None:
            return Why.of(refused(refusal, where))
    named = [found for error in reported if (found := _FROM_METADATA.match(error.str()))]
    if named:
        return list(dict.fromkeys(Address(found["host"].strip("[]"), int(found["port"])) for found in named))
    return Why(
        Unreachable,
        f"brokers answer, but send no metadata within {_ASK_S:g} s: {reported[0].str() if reported else last}",
        where,
        "check the brokers: their logs, and whether a controller is elected",
    )


def _listed(unreachable: Mapping[Address, Trouble]) -> str:
    return "; ".join(f"{address}: {trouble.what}" for address, trouble in unreachable.items())
