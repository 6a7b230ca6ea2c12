"""Why the brokers cannot be reached. The client only says that it waits; here each address is asked by itself.

Of a client that cannot reach them nothing is taken: a new one tries, and says what keeps it away.
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
"""How long brokers may be silent before it is found out why. With what that takes a user waits less than 15 s."""

HOPELESS = (KafkaError._AUTHENTICATION, KafkaError._SSL)
"""The client would try for ever, and tells of it on the way only."""

_ASK_S = 4.0
_POLL_S = 0.05
_TRY_S = 0.5
"""The client asks any broker that it has heard of, be it there or not: of many short tries one meets one that is."""
_HEARD = re.compile(r"(?P<host>\S+):(?P<port>[0-9]+)/[0-9]+: ")
"""How the client's errors name a broker that it was told of, instead of one that it was given (`/bootstrap`)."""

_quiet = logging.getLogger("enrich.kafka.probe")
_quiet.propagate = False
_quiet.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Why:
    """What keeps us from the brokers, to be raised as often as it is wanted.

    Not kept as an error: one that was raised holds all that its callers had, such as a client with a request under way,
    and who keeps both keeps them from ending.
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
    """Why no broker can be reached; None when one can. Takes a few seconds at most.

    A ConfigError for what the connection's settings make impossible, Unreachable for the rest.
    """
    return _look(connection).why


def explained(connection: Connection, error: EnrichError) -> Why:
    """Instead of an error that says no more than that it waited: which address does not answer, and why."""
    look = _look(connection)
    if look.why is not None:
        return look.why
    if not look.some_away:
        return Why.of(error)
    what = f"{error.what}; some brokers do not answer: {_listed(look.some_away)}"
    return replace(Why.of(error), what=what)


def refused(error: KafkaError, where: str) -> EnrichError:
    """One of HOPELESS, in words that help."""
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


def servers_text(connection: Connection) -> str:
    return f"kafka.bootstrap_servers {connection['bootstrap.servers']}"


@dataclass(frozen=True)
class _Look:
    why: Why | None
    some_away: Mapping[Address, Trouble] = field(default_factory=dict)
    """Though others answer."""


def _look(connection: Connection) -> _Look:
    where, encrypted = servers_text(connection), "SSL" in str(connection.get("security.protocol", "")).upper()
    given = addresses_of(str(connection["bootstrap.servers"]))
    away = troubles(given, encrypted=encrypted)
    if given and all(address in away for address in given):
        return _Look(_none_answers(away, where))
    advertised = _advertised(connection, where)
    if isinstance(advertised, Why):
        return _Look(advertised)
    unseen = troubles(advertised, encrypted=encrypted)
    if advertised and all(address in unseen for address in advertised):
        return _Look(
            Why(
                Unreachable,
                f"the brokers answer, but say that they are to be reached where nobody answers: {_listed(unseen)}",
                where,
                "correct advertised.listeners of the brokers, or make their names and ports reach them from this host",
            )
        )
    return _Look(None, {**away, **unseen})


def _none_answers(away: Mapping[Address, Trouble], where: str) -> Why:
    first = next(iter(away.values()))
    setting = next((trouble for trouble in away.values() if trouble.is_setting), None)
    if setting is not None:
        return Why(ConfigError, setting.what, where, setting.next_step)
    return Why(Unreachable, f"no broker answers: {_listed(away)}", where, first.next_step)


def _advertised(connection: Connection, where: str) -> list[Address] | Why:
    """Where the brokers say that they are, or why they do not talk to us."""
    heard: list[KafkaError] = []
    with kafka_errors(where):
        settings: dict[str, Any] = {**connection, "error_cb": heard.append, "logger": _quiet}
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
        refusal = next((error for error in heard if error.code() in HOPELESS), None)
        if refusal is not None:
            return Why.of(refused(refusal, where))
    named = [found for error in heard if (found := _HEARD.match(error.str()))]
    if named:
        return list(dict.fromkeys(Address(found["host"].strip("[]"), int(found["port"])) for found in named))
    return Why(
        Unreachable,
        f"brokers answer, but tell nothing of themselves within {_ASK_S:g} s: {heard[0].str() if heard else last}",
        where,
        "check that the brokers are well: their logs, and whether a controller is elected",
    )


def _listed(away: Mapping[Address, Trouble]) -> str:
    return "; ".join(f"{address}: {trouble.what}" for address, trouble in away.items())
