"""An HTTP endpoint on a raw socket that does exactly what a test tells it, and keeps what it was sent.

A script is a list of steps, one for each request in the order in which their heads come; the last step is repeated. A
step is a function that gets a `Talk`, and returns whether the connection goes on.
"""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.waiting import GUARD_S

_PATIENCE_S = 2 * GUARD_S
"""Longer than any test: no connection ends because the endpoint has waited for long."""
_NO_LINGER = struct.pack("ii", 1, 0)

PEM = Path(__file__).parents[2] / "integration" / "edge" / "pem"
"""Made with openssl for tests, valid until 2120 if not said otherwise. `authority.pem` signed `issued-local.pem`
(localhost, 127.0.0.1, xn--bcher-kva.example), `issued-other.pem` (other.example) and `issued-expired.pem` (2020); their
key is `issued.key`. `first` and `second` are their own authorities, for 127.0.0.1. `locked.key` needs a password."""


@dataclass
class Seen:
    """A request, as far as it was read."""

    connection: int
    """Counted from 0."""
    line: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = b""
    is_whole: bool = False


@dataclass
class Talk:
    """What a step may do with one request."""

    socket: socket.socket
    request: Seen
    ended: threading.Event
    """Set when the endpoint ends."""
    _rest: bytearray = field(default_factory=bytearray)

    def read(self) -> None:
        """The body, to its end."""
        length = int(self.request.headers.get("content-length", "0"))
        while len(self._rest) < length:
            data = self.socket.recv(65_536)
            if not data:
                raise ConnectionError("the sender closed within a body")
            self._rest += data
        self.request.body = bytes(self._rest[:length])
        del self._rest[:length]
        self.request.is_whole = True

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reset(self) -> None:
        """What is not read by the sender yet may be lost."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


Step = Callable[[Talk], bool]


def whole(status: int, body: bytes = b"", headers: Sequence[tuple[str, str]] = (), reason: str = "Said") -> bytes:
    """The bytes of an answer with a length, where its status allows one."""
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    if status >= 200 and status not in (204, 304):
        lines.append(f"content-length: {len(body)}")
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1") + b"\r\n" + body


def answers(status: int = 200, body: bytes = b"", headers: Sequence[tuple[str, str]] = ()) -> Step:
    """As it should be; the connection is kept."""
    return sends(whole(status, body, headers), keeps=True)


def sends(data: bytes, *, keeps: bool = False) -> Step:
    """Reads the request, sends these bytes, and closes or does not."""

    def step(talk: Talk) -> bool:
        talk.read()
        talk.send(data)
        return keeps

    return step


def sends_slowly(pieces: Sequence[bytes], pause_s: float) -> Step:
    """One after the other, and then nothing more."""

    def step(talk: Talk) -> bool:
        talk.read()
        for piece in pieces:
            talk.send(piece)
            if talk.ended.wait(pause_s):
                return False
        return hangs(talk)

    return step


def sends_endlessly(first: bytes, again: bytes, pause_s: float = 0.0) -> Step:
    """Until the sender closes."""

    def step(talk: Talk) -> bool:
        talk.read()
        talk.send(first)
        while not talk.ended.wait(pause_s) if pause_s else not talk.ended.is_set():
            talk.send(again)
        return False

    return step


def closes(talk: Talk) -> bool:
    """The request was read, the answer is lost."""
    talk.read()
    return False


def resets(talk: Talk) -> bool:
    """The same, with a reset."""
    talk.read()
    talk.reset()
    return False


def resets_before_body(talk: Talk) -> bool:
    talk.reset()
    return False


def hangs(talk: Talk) -> bool:
    """Neither answers nor closes."""
    if not talk.request.is_whole:
        talk.read()
    talk.ended.wait(_PATIENCE_S)
    return False


def server_tls(certificate: str, *, asks_for: Path | None = None) -> ssl.SSLContext:
    """With one of `PEM`, such as `issued-local`. `asks_for`: the authority of senders' certificates."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    key = "issued" if certificate.startswith("issued") else certificate
    context.load_cert_chain(PEM / f"{certificate}.pem", PEM / f"{key}.key")
    if asks_for is not None:
        context.load_verify_locations(asks_for)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class ScriptedEndpoint:
    """Listens from `with` to its end. Each connection has a thread."""

    def __init__(
        self, *script: Step, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._script = script or (answers(),)
        self._tls = tls
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self._connections = 0
        self.requests: list[Seen] = []
        """In the order in which their heads came."""
        self.failed_handshakes: list[str] = []
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((address, port))
        self.port: int = self._listener.getsockname()[1]

    @property
    def connections(self) -> int:
        """How many were made."""
        return self._connections

    def url(self, host: str = "127.0.0.1", path: str = "/hook") -> str:
        return f"http{'' if self._tls is None else 's'}://{host}:{self.port}{path}"

    def __enter__(self) -> "ScriptedEndpoint":
        self._listener.listen(512)
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        with suppress(OSError):  # it never listened
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                _shut(connection)
        for thread in self._threads:
            thread.join(_PATIENCE_S)
            assert not thread.is_alive()

    def _begin(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(_PATIENCE_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number, self._connections = self._connections, self._connections + 1
            self._begin(lambda plain=connection, number=number: self._serve(plain, number))  # type: ignore[misc] # bound now

    def _serve(self, plain: socket.socket, number: int) -> None:
        connection = plain
        with self._lock:
            self._open.add(plain)
        try:
            if self._tls is not None:
                with self._lock:
                    self._open.discard(plain)
                try:
                    connection = self._tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
                    with self._lock:
                        self._open.add(connection)
                    connection.do_handshake()
                except (OSError, ssl.SSLError) as error:
                    self.failed_handshakes.append(str(error))
                    return
            self._talk(connection, number)
        except OSError:
            pass  # the sender went away, or the endpoint ends
        finally:
            with self._lock:
                self._open.discard(connection)
                # Closed with everything that it was to send: no unread byte makes a reset of it.
                connection.close()

    def _talk(self, connection: socket.socket, number: int) -> None:
        rest = bytearray()
        while True:
            end = rest.find(b"\r\n\r\n")
            while end < 0:
                data = connection.recv(65_536)
                if not data:
                    return
                rest += data
                end = rest.find(b"\r\n\r\n")
            first, *lines = bytes(rest[:end]).decode("latin-1").split("\r\n")
            del rest[: end + 4]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            with self._lock:
                request = Seen(number, first, headers)
                step = self._script[min(len(self.requests), len(self._script) - 1)]
                self.requests.append(request)
            talk = Talk(connection, request, self._ended, rest)
            if not step(talk):
                return


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # the other side was quicker
        connection.shutdown(socket.SHUT_RDWR)
