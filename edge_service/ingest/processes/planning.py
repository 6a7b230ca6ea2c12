"""What is to be served: the entries of a pipeline, by the address that they listen on."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from edge_service.ingest.entry.endpoint import EndpointPlan
from edge_service.ingest.reading.formats import path_of
from enrich.base.addresses import family_of
from enrich.base.errors import ConfigError
from enrich.config import Ingest, Invalid, Pipeline
from enrich.config.sections.edges.ingest import ServerTls


@dataclass(frozen=True)
class Address:
    """Entries that listen on one address."""

    listen: str
    entries: Mapping[str, Ingest]
    """By name."""

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    @property
    def tls(self) -> ServerTls | None:
        """The configuration's rules see to it that all entries of an address have the same."""
        return next(iter(self.entries.values())).tls

    @property
    def processes(self) -> int:
        """The same holds for this."""
        return next(iter(self.entries.values())).processes

    @property
    def where(self) -> str:
        return f"ingest.{next(iter(self.entries))}.listen"


def addresses_of(pipeline: Pipeline) -> list[Address]:
    """Raises ConfigError if the pipeline takes no events."""
    if not pipeline.ingest:
        raise ConfigError(f"the pipeline {pipeline.name} takes no events", next_step="name entries under `ingest`")
    by_listen: dict[str, dict[str, Ingest]] = {}
    for name, entry in pipeline.ingest.items():
        by_listen.setdefault(entry.listen, {})[name] = entry
    return [Address(listen, entries) for listen, entries in by_listen.items()]


def of_process(addresses: Sequence[Address], number: int) -> list[Address]:
    """What the process of this number serves: the first one all addresses, each next one those that want so many."""
    return [address for address in addresses if number < address.processes]


def endpoint_plan(pipeline: str, name: str, entry: Ingest) -> EndpointPlan:
    return EndpointPlan(
        path=entry.path,
        topic=entry.topic,
        key=path_of(entry.key),
        event_time=path_of(entry.event_time),
        tokens=[token.get_secret_value() for token in entry.tokens or ()],
        most_body=entry.max_body,
        most_inflated=entry.max_inflated,
        most_events=entry.max_events,
        in_flight=entry.in_flight,
        body_deadline_s=entry.body_deadline.total_seconds(),
        deadline_s=entry.deadline.total_seconds(),
        dlq=entry.dlq if entry.invalid is Invalid.dlq else None,
        pipeline=pipeline,
        name=name,
    )


@contextmanager
def reserved(addresses: Sequence[Address]) -> Iterator[dict[str, int]]:
    """The port of each address, held for our processes until the end of the block. Raises ConfigError for an address
    that cannot be listened on."""
    held: list[socket.socket] = []
    ports: dict[str, int] = {}
    try:
        for address in addresses:
            try:
                held.append(_reserved(address))
            except OSError as error:
                raise ConfigError(
                    f"cannot listen on {address.listen}: {error.strerror or error}",
                    where=address.where,
                    next_step="stop what listens there, or choose another address",
                ) from error
            ports[address.listen] = int(held[-1].getsockname()[1])
        yield ports
    finally:
        for each in held:
            each.close()


def _reserved(address: Address) -> socket.socket:
    """A socket that is bound and does not listen: connections go to those of our processes, which do."""
    family = family_of(address.host)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Without SO_REUSEPORT: another program of this user that has it would share its connections with us.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((address.host, address.port))
        probe.listen(1)
        port = probe.getsockname()[1]
    holder = socket.socket(family, socket.SOCK_STREAM)
    try:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            # Without SO_REUSEADDR: else another ingest that starts meanwhile could bind, as nobody listens yet.
            holder.bind((address.host, port))
        except OSError:
            # A connection of the program that listened there before may have ended a moment ago.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((address.host, port))
    except OSError:
        holder.close()
        raise
    return holder
