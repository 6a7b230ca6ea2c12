"""Listens, and goes on until it is told to end."""

import asyncio
import signal
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

from enrich.base.addresses import host_and_port
from enrich.base.errors import ConfigError
from enrich.dev.sink.behaviour import Reaction
from enrich.dev.sink.connection import Connection, Open
from enrich.dev.sink.control import PREFIX, controlled
from enrich.dev.sink.receiver import Receiver, Request

_BACKLOG = 1024


@dataclass(frozen=True)
class Listening:
    """Where it listens, and with which certificate."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    clients: Path | None = None
    """The authority of clients' certificates, which they must have then."""

    @classmethod
    def at(cls, address: str, **files: Path | None) -> "Listening":
        """Raises ConfigError for what is no address."""
        host, colon, port = address.rpartition(":")
        if not colon or not host or not port.isdecimal() or int(port) > 65_535:
            raise ConfigError(
                f"not an address to listen on: {address}", where="--listen", next_step="write HOST:PORT, 127.0.0.1:8900"
            )
        return cls(host.strip("[]"), int(port), **files)

    def context(self) -> ssl.SSLContext | None:
        if self.certificate is None:
            if self.clients is not None or self.key is not None:
                raise ConfigError("--key and --clients need --certificate", next_step="add --certificate FILE")
            return None
        try:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(self.certificate, self.key)
            if self.clients is not None:
                context.load_verify_locations(self.clients)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"the certificate cannot be used: {error}",
                where=f"{self.certificate}",
                next_step="give PEM files: --certificate, --key if it stands apart, --clients",
            ) from None
        return context


def serve(
    receiver: Receiver,
    listening: Listening,
    on_start: Callable[[str], None],
    on_tick: Callable[[], None],
    every_s: float,
) -> None:
    """Until SIGTERM or SIGINT. `on_start` gets the URL. Raises ConfigError if it cannot listen there, and what the
    functions raise."""
    uvloop.run(_serve(receiver, listening, on_start, on_tick, every_s))


async def _serve(
    receiver: Receiver,
    listening: Listening,
    on_start: Callable[[str], None],
    on_tick: Callable[[], None],
    every_s: float,
) -> None:
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    open_ = Open()

    def react(request: Request) -> Reaction:
        if request.path.startswith(PREFIX):
            return controlled(request, receiver)
        return receiver.receive(request)

    context = listening.context()
    try:
        server = await loop.create_server(
            lambda: Connection(react, open_, loop), listening.host, listening.port, backlog=_BACKLOG, ssl=context
        )
    except (OSError, UnicodeError) as error:  # the latter: no name of a host has such parts
        reason = error.strerror if isinstance(error, OSError) else "that is no name of a host"
        raise ConfigError(
            f"cannot listen on {host_and_port(listening.host, listening.port)}: {reason}",
            where="--listen",
            next_step="choose another port; port 0 takes a free one",
        ) from None
    host, port = server.sockets[0].getsockname()[:2]
    on_start(f"{'https' if context else 'http'}://{host_and_port(host, port)}")
    while not ending.is_set():
        try:
            await asyncio.wait_for(ending.wait(), every_s)
        except TimeoutError:
            on_tick()
    server.close()
    for connection in list(open_.connections):
        connection.end()
