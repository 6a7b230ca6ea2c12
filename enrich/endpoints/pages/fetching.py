"""One GET: within a time and a size, whatever the endpoint does. Messages never quote what it answered."""

import http.client
import select
import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from urllib.parse import SplitResult, quote, urlsplit

from enrich.base.addresses import place_of
from enrich.base.errors import ConfigError, Retryable, Unreachable
from enrich.base.http_watch import Ended, Watched, watched
from enrich.endpoints.certificates import tls_reason
from enrich.endpoints.retry_after import now_there, retry_after_s

_PIECE = 1 << 16
_GZIP = 16 + zlib.MAX_WBITS
_LOOK_EVERY_S = 0.2
_LONGEST_PAUSE_S = 300.0
_FIRST_PAUSE_S = 1.0
_IDLE_S = 60.0
"""A connection that was not used for longer is not used again: firewalls forget such ones, and what is sent then is
swallowed without a word."""
_LONGEST_LIFE_S = 300.0
"""Then a name that leads elsewhere is followed, however busy the connection is."""
_MISSING = {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}
_AS_THEY_ARE = "%/:=&?~#+!$,;'@()*[]"
"""In addresses that others wrote: what is escaped stays so."""
_TRANSIENT = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}


@dataclass(frozen=True)
class Known:
    """What a resource was like when it was read last, in the endpoint's own words; empty: it has not said."""

    etag: str = ""
    modified: str = ""

    def __bool__(self) -> bool:
        return bool(self.etag or self.modified)


@dataclass(frozen=True)
class Request:
    headers: Mapping[str, str] = field(default_factory=dict)
    """May contain secrets."""
    ca_file: str | None = None
    timeout_s: float = 30.0
    """For each answer, from connecting to its last byte."""
    largest: int = 64 * 2**20
    """Bytes of an answer, after decompression."""
    tries: int = 5
    """While the endpoint wants to be left alone for a while."""


class NotThere(Retryable):
    """The endpoint has no such resource."""


class LeftAlone(Retryable):
    """The endpoint wants to be left alone for a while."""

    wait_s: float | None = None
    """For how long, if it says so."""


@dataclass(frozen=True)
class Fetched:
    body: bytes
    known: Known
    link: str
    """The headers Link, as one."""


class Fetcher:
    """Keeps a connection between answers. `where` must not contain a secret."""

    def __init__(
        self, request: Request, where: str, stopping: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._request = request
        self._clock = clock
        self._where = where
        self._stopping = stopping
        self._connection: http.client.HTTPConnection | None = None
        self._place: tuple[str, str] | None = None
        self._born_s = self._used_s = 0.0
        self._too_late = f"no whole answer within {request.timeout_s:g} s"

    def get(self, url: str, known: Known) -> Fetched | None:
        """None: the endpoint says that nothing has changed since it was `known`. Waits where it asks for that, for some
        minutes at most. Raises Retryable, or Unreachable."""
        for attempt in range(self._request.tries):
            found = self._tried(url, known)
            if not isinstance(found, _Later):
                return found
            wait_s = found.wait_s or _FIRST_PAUSE_S * 2**attempt  # who says "at once" is asked less and less, too
            if attempt == self._request.tries - 1 or wait_s > _LONGEST_PAUSE_S:
                error = LeftAlone(f"the endpoint answers {found.status} and wants to be left alone", where=self._where)
                error.wait_s = found.wait_s
                raise error
            self._wait(wait_s)
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _tried(self, url: str, known: Known) -> "Fetched | _Later | None":
        was_open = self._connection is not None
        try:
            return self._answer(url, known)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # A kept connection may have ended at the very moment; a fresh one says what is the matter.
            self.close()
            if not was_open:
                raise Unreachable("the endpoint hung up without an answer", where=self._where) from None
        return self._tried(url, known)

    def _answer(self, url: str, known: Known) -> "Fetched | _Later | None":
        parts = urlsplit(url)
        with self._errors(), self._within() as within:
            connection = self._connection_to(parts)
            within.connect(connection)
            target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
            connection.request("GET", quote(target, safe=_AS_THEY_ARE), headers=self._headers(known))
            answer = connection.getresponse()
            if answer.status == HTTPStatus.NOT_MODIFIED and known:
                answer.read()
                return None
            if answer.status in _TRANSIENT:
                self.close()  # its body is nobody's business, however long it is
                now = now_there(answer.headers["date"])
                return _Later(answer.status, retry_after_s(answer.headers["retry-after"], now))
            if answer.status in _MISSING:
                answer.read(_PIECE)
                if not answer.isclosed():
                    self.close()  # a long text about nothing
                raise NotThere(f"the endpoint answers {answer.status}", where=self._where)
            if answer.status != HTTPStatus.OK:
                self.close()
                raise self._refused(answer.status)
            body = self._body(answer)
            # A proxy may have put one before the endpoint's own.
            return Fetched(body, _known(answer.headers), ", ".join(answer.headers.get_all("link", [])))

    def _headers(self, known: Known) -> Mapping[str, str]:
        own = {"accept": "application/json, application/x-ndjson", "accept-encoding": "gzip", "user-agent": "enrich"}
        if known.etag:
            own["if-none-match"] = known.etag
        if known.modified:
            own["if-modified-since"] = known.modified
        return {**own, **self._request.headers}

    @contextmanager
    def _within(self) -> Iterator[Watched]:
        try:
            with watched(self._why_to_end()) as answer:
                yield answer
        except Ended as ended:
            self.close()
            raise Unreachable(str(ended), where=self._where) from None
        finally:
            self._used_s = self._clock()

    def _why_to_end(self) -> Callable[[], str | None]:
        deadline_s = time.monotonic() + self._request.timeout_s

        def why() -> str | None:
            if self._stopping():
                return "reading was stopped, because the process is stopping"
            return self._too_late if time.monotonic() > deadline_s else None

        return why

    def _connection_to(self, parts: SplitResult) -> http.client.HTTPConnection:
        place, now_s = (parts.scheme, parts.netloc), self._clock()
        is_old = now_s - self._used_s > _IDLE_S or now_s - self._born_s > _LONGEST_LIFE_S
        if self._connection is None or self._place != place or is_old or _says_more(self._connection):
            self.close()
            self._born_s = now_s
            (host, port), timeout = place_of(parts), self._request.timeout_s
            if parts.scheme == "https":
                context = _context(self._request.ca_file, self._where)
                self._connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
            else:
                self._connection = http.client.HTTPConnection(host, port, timeout=timeout)
            self._place = place
        return self._connection

    def _body(self, answer: http.client.HTTPResponse) -> bytes:
        encoding = (answer.headers["content-encoding"] or "identity").lower()
        if encoding not in ("identity", "gzip"):
            self.close()
            raise Retryable(f"the answer is compressed with {encoding[:20]}, which nobody asked for", where=self._where)
        sent = iter(lambda: answer.read(_PIECE), b"")
        pieces: list[bytes] = []
        size = 0
        for piece in sent if encoding == "identity" else _inflated(sent):
            pieces.append(piece)
            size += len(piece)
            if size > self._request.largest:
                self.close()
                raise Retryable(
                    f"an answer is larger than {self._request.largest:,} bytes",
                    where=self._where,
                    next_step="ask for smaller pages, or raise `largest`",
                )
        if answer.length:
            self.close()
            raise Retryable("the answer breaks off", where=self._where)
        return b"".join(pieces)

    def _refused(self, status: int) -> Retryable:
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return Retryable(f"the endpoint answers {status}", where=self._where, next_step="check token and headers")
        if 300 <= status < 400:
            step = "write the address that it redirects to: tokens are not sent elsewhere"
            return Retryable(f"the endpoint answers {status}, a redirect", where=self._where, next_step=step)
        return Retryable(f"the endpoint answers {status}", where=self._where)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._stopping():
                raise Retryable("reading was stopped, because the process is stopping", where=self._where)
            time.sleep(min(left, _LOOK_EVERY_S))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            raise
        except TimeoutError:
            self.close()
            raise Unreachable(self._too_late, where=self._where) from None
        except ssl.SSLError as error:
            self.close()
            raise Unreachable(f"TLS fails: {tls_reason(error)}", where=self._where) from error
        except http.client.IncompleteRead:
            self.close()
            raise Retryable("the answer breaks off", where=self._where) from None
        except (OSError, http.client.HTTPException, zlib.error, ValueError) as error:
            self.close()
            why = getattr(error, "strerror", None) or type(error).__name__
            raise Unreachable(f"the endpoint does not answer: {why}", where=self._where) from error


def _says_more(connection: http.client.HTTPConnection) -> bool:
    """Whether something came that nobody has asked for, or its end: it would be taken for the next answer."""
    if connection.sock is None:
        return False
    if isinstance(connection.sock, ssl.SSLSocket) and connection.sock.pending():
        return True  # decrypted with the answer: nothing is left to arrive
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


@dataclass(frozen=True)
class _Later:
    status: int
    wait_s: float | None


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What a body of gzip stands for. It may have several members, one behind the other: servers that compress as they
    write send such. Raises IncompleteRead if the last one breaks off, and zlib.error."""
    member = zlib.decompressobj(_GZIP)
    for piece in pieces:
        rest = piece
        while rest:
            if member.eof:
                member = zlib.decompressobj(_GZIP)
            if plain := member.decompress(rest, _PIECE):
                yield plain
            rest = member.unconsumed_tail or member.unused_data
    if not member.eof:
        raise http.client.IncompleteRead(b"")


def _known(headers: Message) -> Known:
    return Known(headers["etag"] or "", headers["last-modified"] or "")


def _context(ca_file: str | None, where: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the file of authorities cannot be read: {error}", where=where) from error
