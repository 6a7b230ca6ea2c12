"""Posts to one endpoint over connections of its own, so that whatever it does is felt by its own route alone."""

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from enrich.base.errors import ConfigError
from enrich.config.sections.edges.expel import HttpEndpoint
from enrich.endpoints import Certificates, bearer, target_of, tls_reason
from enrich.endpoints.http.answer import Answer, NoAnswer
from enrich.endpoints.http.connection import Connection
from enrich.endpoints.http.hiding import Hidden
from enrich.endpoints.http.names import Names, Place, Resolve, resolve_by_system

_IDLE_S = 4.0
"""Below the five seconds after which many servers close: a request that meets the close may have to be repeated."""
_LONGEST_IDLE_S = 30.0
"""The same where an endpoint says that it waits for longer."""
_LONGEST_LIFE_S = 300.0
"""Then a name that leads elsewhere and a renewed certificate are followed, however busy a connection is."""


@dataclass(slots=True)
class _Pooled:
    connection: Connection
    born: float
    used: float

    def is_fresh(self, now: float) -> bool:
        hint = self.connection.server_keeps_s
        idle = _IDLE_S if hint is None else min(_LONGEST_IDLE_S, max(0.0, hint - 1))
        return self.connection.is_open and now - self.used < idle and now - self.born < _LONGEST_LIFE_S


class HttpClient:
    """For one route, on one loop. Follows no redirect, repeats nothing."""

    def __init__(
        self,
        endpoint: HttpEndpoint,
        most_connections: int,
        where: str,
        resolve: Resolve = resolve_by_system,
    ) -> None:
        """Opens nothing yet. Raises ConfigError for an address, a token or files that cannot be used."""
        self._where = where
        url = endpoint.url.get_secret_value()
        self._target = target_of(url, where)
        self._token = None if endpoint.token is None else bearer(endpoint.token.get_secret_value(), where)
        self._hidden = Hidden(url, self._target, self._token)
        self._certificates = Certificates(endpoint, where) if self._target.is_tls else None
        self._timeout_s = endpoint.timeout / timedelta(seconds=1)
        self._names = Names(
            self._target,
            where,
            allows_private=endpoint.allow_private,
            resolve=resolve,
            timeout_s=self._timeout_s,
        )
        self._room = asyncio.Semaphore(most_connections)
        self._idle: deque[_Pooled] = deque()
        self._busy: set[Connection] = set()
        self._limits: set[asyncio.Timeout] = set()
        """Of the requests under way."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._is_closed = False
        authorization = "" if self._token is None else f"authorization: Bearer {self._token}\r\n"
        self._head = (
            f"POST {self._target.path} HTTP/1.1\r\nhost: {self._target.host}\r\nuser-agent: enrich\r\n"
            f"accept-encoding: identity\r\n{authorization}"
        )

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Sends it once. Raises NoAnswer, and ConfigError if the name leads to no address that is allowed, or for a
        header that cannot be sent."""
        head = self._head_of(body, headers)
        async with self._room:
            if self._is_closed:
                raise NoAnswer("the client is closed", may_have_arrived=False)
            pooled: _Pooled | None = None
            limit = asyncio.timeout(self._timeout_s)
            try:
                async with limit:
                    self._limits.add(limit)
                    pooled = self._pooled() or await self._connected()
                    self._busy.add(pooled.connection)
                    return await pooled.connection.exchange(head, body)
            except TimeoutError:
                is_sought = self._names.are_sought and not self._is_closed
                sought = f"address of {self._target.name}" if is_sought else "connection"
                what = sought if pooled is None else "whole answer"
                when = "before the client was closed" if self._is_closed else f"within {self._timeout_s:g} s"
                reason = f"no {what} {when}"
                raise NoAnswer(reason, may_have_arrived=pooled is not None) from None
            finally:
                self._limits.discard(limit)
                if pooled is not None:
                    self._put_back(pooled)

    async def close(self) -> None:
        """Requests that are under way end with NoAnswer."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for pooled in self._idle:
            pooled.connection.close()
        self._idle.clear()
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(0)
        while self._limits:
            await asyncio.sleep(0)
        self._names.close()

    @property
    def open_connections(self) -> int:
        return len(self._busy) + sum(pooled.connection.is_open for pooled in self._idle)

    def _head_of(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        count = len(headers)
        if lines.count("\r") != count or lines.count("\n") != count or "\0" in lines or not lines.isascii():
            raise ConfigError(
                "a header of the request has characters that no header can have",
                where=self._where,
                next_step="check content_type",
            )
        return f"{self._head}{lines}content-length: {len(body)}\r\n\r\n".encode("ascii")

    def _pooled(self) -> _Pooled | None:
        """The one that was used last: the others get the chance to be idle for long enough."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            pooled = self._idle.pop()
            if pooled.is_fresh(now):
                return pooled
            pooled.connection.close()
        return None

    def _put_back(self, pooled: _Pooled) -> None:
        self._busy.discard(pooled.connection)
        if not pooled.connection.is_open:
            return
        if self._is_closed:
            pooled.connection.close()
            return
        loop = asyncio.get_running_loop()
        pooled.used = loop.time()
        self._idle.append(pooled)
        if self._sweeping is None:
            self._sweeping = loop.call_later(_IDLE_S, self._sweep)

    def _sweep(self) -> None:
        """Closes what was not used for long."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        kept = [pooled for pooled in self._idle if pooled.is_fresh(now)]
        for pooled in self._idle:
            if pooled not in kept:
                pooled.connection.close()
        self._idle = deque(kept)
        self._sweeping = loop.call_later(_IDLE_S, self._sweep) if kept else None

    async def _connected(self) -> _Pooled:
        """Raises NoAnswer and ConfigError."""
        places = await self._names.places()
        reasons = []
        for place in places:
            try:
                async with asyncio.timeout(self._timeout_s / len(places)):
                    connection = await self._connect(place)
            except ssl.SSLError as error:
                reasons.append(f"TLS with {place}: {tls_reason(error)}")
                continue
            except OSError as error:
                reasons.append(f"{place}: {_why(error)}")
                continue
            self._names.prefer(place)
            now = asyncio.get_running_loop().time()
            return _Pooled(connection, now, now)
        self._names.forget()
        raise NoAnswer("; ".join(reasons), may_have_arrived=False)

    async def _connect(self, place: Place) -> Connection:
        """To this address and no other. Raises OSError, and so ssl.SSLError and TimeoutError."""
        loop = asyncio.get_running_loop()
        tls = None if self._certificates is None else self._certificates.context()
        plain = socket.socket(place.family, socket.SOCK_STREAM)
        try:
            plain.setblocking(False)
            await loop.sock_connect(plain, place.address)
            _, connection = await loop.create_connection(
                lambda: Connection(loop, self._hidden),
                sock=plain,
                ssl=tls,
                server_hostname=None if tls is None else self._target.name.partition("%")[0],
            )
        except BaseException:
            plain.close()
            raise
        return connection


def _why(error: OSError) -> str:
    return "no connection in time" if error.errno is None else os.strerror(error.errno).lower()
