"""Probes an address by socket, since the Kafka client only reports that it waits. Sends nothing secret."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from enrich.base.addresses import connected, host_and_port

PATIENCE_S = 3.0
"""Time-out for one address, from resolving its name to its first answer."""

_DEFAULT_PORT = 9092
_CLIENT_ID = b"enrich"
_HELLO_ID = 4711
# An ApiVersions request, which every listener answers before authentication.
_HELLO = struct.pack(">hhih", 18, 0, _HELLO_ID, len(_CLIENT_ID)) + _CLIENT_ID


@dataclass(frozen=True)
class Address:
    """The address of a broker, as given to a client."""

    host: str
    port: int

    def __str__(self) -> str:
        return host_and_port(self.host, self.port)


@dataclass(frozen=True)
class Trouble:
    """Why no broker answers at an address."""

    what: str
    next_step: str
    is_setting: bool = False
    """A server answers, but expects another security protocol."""


def addresses_of(bootstrap_servers: str) -> list[Address]:
    """Parsed as librdkafka does: separated by commas, each with an optional protocol and port."""
    found = []
    for word in filter(None, map(str.strip, bootstrap_servers.split(","))):
        address = word.rpartition("://")[2]
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            host, port = address, str(_DEFAULT_PORT)
        found.append(Address(host.strip("[]"), int(port)))
    return found


def troubles(
    addresses: Collection[Address], *, encrypted: bool, patience_s: float = PATIENCE_S
) -> dict[Address, Trouble]:
    """Probes all addresses in parallel, each for at most `patience_s`. Addresses that answer are left out."""
    probes = [_Probe(address, encrypted, patience_s) for address in dict.fromkeys(addresses)]
    for probe in probes:
        probe.start()
    for probe in probes:
        # A little longer than the probe's own time-outs: resolving a name has none.
        probe.join(patience_s + 0.5)
    return {probe.address: trouble for probe in probes if (trouble := probe.trouble()) is not None}


class _Probe(threading.Thread):
    """A daemon thread: a name server that does not answer must not keep the process alive."""

    def __init__(self, address: Address, encrypted: bool, patience_s: float) -> None:
        super().__init__(name=f"probe of {address}", daemon=True)
        self.address = address
        self._encrypted = encrypted
        self._patience_s = patience_s
        self._found: Trouble | None = None
        self._late = Trouble(
            f"the name server does not answer within {patience_s:g} s", "check this host's name server"
        )
        """What is the matter if it does not come any further in time."""

    def run(self) -> None:
        try:
            socket.getaddrinfo(self.address.host, self.address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self._found = Trouble(
                f"this host knows no such name ({_text(error)})",
                "correct the name, or make this host resolve it (DNS, /etc/hosts)",
            )
            return
        self._late = _unconnected(self._patience_s)
        self._found = _probe(self.address, self._encrypted, self._patience_s, self._connected)

    def _connected(self) -> None:
        self._late = _silent(self._patience_s)

    def trouble(self) -> Trouble | None:
        return self._late if self._found is None and self.is_alive() else self._found


def _probe(address: Address, encrypted: bool, patience_s: float, on_connected: Callable[[], object]) -> Trouble | None:
    try:
        with connected(address.host, address.port, patience_s) as plain:
            on_connected()
            return _probe_connected(plain, address, encrypted, patience_s)
    except ConnectionRefusedError:
        return Trouble(
            "the connection is refused: nothing listens there",
            "check that the broker runs, and that this is the port of one of its listeners",
        )
    except TimeoutError:
        return _unconnected(patience_s)
    except OSError as error:
        return Trouble(f"no connection: {_text(error)}", "check the network between this host and the broker")


def _probe_connected(plain: socket.socket, address: Address, encrypted: bool, patience_s: float) -> Trouble | None:
    try:
        if not encrypted:
            return _ask(plain)
        with _unverified().wrap_socket(plain, server_hostname=address.host) as secret:
            return _ask(secret)
    except TimeoutError:
        return _silent(patience_s)
    except OSError as error:
        if isinstance(error, ssl.SSLError) and "certificate required" in str(error).lower():
            return None  # a TLS listener as expected; the client reports which certificate it wants
        if _answers_other_kind(address, encrypted, patience_s):
            return _wrong_kind(encrypted)
        return _no_broker(f"it closes the connection ({_text(error)})")


def _ask(connection: socket.socket) -> Trouble | None:
    """Raises OSError if the server closes the connection or does not answer in time."""
    connection.sendall(struct.pack(">i", len(_HELLO)) + _HELLO)
    answer = b""
    while len(answer) < 8:
        more = connection.recv(8 - len(answer))
        if not more and not answer:
            raise ConnectionResetError(None, "without an answer")
        if not more or answer[:1] == b"\x15":
            break
        answer += more
    if answer[:2] == b"\x15\x03":  # a TLS alert
        raise ConnectionResetError(None, "with a TLS alert")
    if len(answer) == 8 and struct.unpack(">i", answer[4:])[0] == _HELLO_ID:
        return None
    return _no_broker("it answers, but not as Kafka does")


def _answers_other_kind(address: Address, encrypted: bool, patience_s: float) -> bool:
    """Whether a broker answers there over the other kind of connection, encrypted or plain."""
    try:
        with connected(address.host, address.port, patience_s) as plain:
            if encrypted:
                return _ask(plain) is None
            with _unverified().wrap_socket(plain, server_hostname=address.host):
                return True
    except OSError as error:
        return isinstance(error, ssl.SSLError) and "certificate required" in str(error).lower()


def _unverified() -> ssl.SSLContext:
    """Nothing secret is sent and nothing trusted: the Kafka client verifies the certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _wrong_kind(encrypted: bool) -> Trouble:
    port, was = ("plain", "encrypted") if encrypted else ("encrypted", "plain")
    kinds = "PLAINTEXT or SASL_PLAINTEXT" if encrypted else "SSL or SASL_SSL"
    return Trouble(
        f"the brokers' port is {port}, and the connection was {was}",
        f"set kafka.security.protocol to {kinds}, as the brokers' listener has it",
        is_setting=True,
    )


def _unconnected(patience_s: float) -> Trouble:
    return Trouble(
        f"nothing answers the attempt to connect within {patience_s:g} s",
        "check that the host runs, and that no firewall drops the connection",
    )


def _silent(patience_s: float) -> Trouble:
    return Trouble(
        f"it accepts the connection and sends nothing within {patience_s:g} s",
        "check that this is the port of a broker, and that the broker is healthy",
    )


def _no_broker(what: str) -> Trouble:
    return Trouble(what, "check that this is the port of a broker and not of something else")


def _text(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
