"""Finds an endpoint's addresses. Connections are made to what was found and checked, never to the name again."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from enrich.base.addresses import host_and_port
from enrich.endpoints import Target, public
from enrich.endpoints.http.answer import NoAnswer

_KEPT_S = 30.0
_LAST_KNOWN_S = 300.0
"""So much longer they serve if nobody says where the name leads now: a name server that is away must not stop a route
whose endpoint works."""
_PATIENCE = 1 / 8
"""The part of a request's time for which its answer is waited for where there are such ones."""
_NO_SUCH_NAME = (socket.EAI_NONAME, socket.EAI_NODATA, socket.EAI_ADDRFAMILY)
"""What a name server says of a name that was taken away: this is an answer."""
_MOST_ADDRESSES = 6
"""Of a name that has more, others are not tried: the time would not suffice for them."""
_SILENT_S = 300.0
"""So long those that took no connection are tried last: with each of them first a connection waits for its share of the
time."""


@dataclass(frozen=True, slots=True)
class Place:
    """Something that a socket can be connected to."""

    family: int
    address: tuple[Any, ...]

    @property
    def ip(self) -> str:
        return str(self.address[0])

    def __str__(self) -> str:
        return host_and_port(self.ip, self.address[1])


Resolve = Callable[[str, int], Awaitable[Sequence[Place]]]
"""Looks up the addresses of a name. Raises OSError."""


class Names:
    """The addresses of one target. Asked for at most once at a time, kept for a short time. For one loop."""

    def __init__(self, target: Target, where: str, *, allows_private: bool, resolve: Resolve, timeout_s: float) -> None:
        """`timeout_s`: of a request."""
        self._target = target
        self._where = where
        self._allows_private = allows_private
        self._resolve = resolve
        self._patience_s = timeout_s * _PATIENCE
        self._places: list[Place] = []
        self._until = 0.0
        self._last_known_until = 0.0
        self._silent: dict[Place, float] = {}
        """Those that took no connection when another did; until when they come last."""
        self._asking: asyncio.Task[list[Place]] | None = None
        self._asked_s = 0.0

    @property
    def are_sought(self) -> bool:
        """Whether the system has been asked, and has not said, and nothing can be tried until then."""
        return self._asking is not None and not self._serve_still

    async def places(self) -> list[Place]:
        """Where to try, the best first. Raises NoAnswer, and ConfigError if no address may be connected to."""
        now = asyncio.get_running_loop().time()
        if self._places and now < self._until:
            return self._places
        if self._asking is None:
            self._asked_s = now
            self._asking = asyncio.ensure_future(self._ask())
            self._asking.add_done_callback(self._asked)
        asking = self._asking
        if self._serve_still:
            await asyncio.wait({asking}, timeout=max(0.0, self._asked_s + self._patience_s - now))
            if not asking.done():
                return self._places
        return await asyncio.shield(asking)

    def prefer(self, place: Place) -> None:
        """This one took a connection, and those before it did not."""
        self._silent.pop(place, None)
        if self._places and self._places[0] != place and place in self._places:
            end = asyncio.get_running_loop().time() + _SILENT_S
            self._silent |= dict.fromkeys(self._places[: self._places.index(place)], end)
            self._places = [place, *(other for other in self._places if other != place)]

    def forget(self) -> None:
        """None of them took a connection: the name may lead elsewhere by now."""
        self._until = 0.0

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    @property
    def _serve_still(self) -> bool:
        """Whether those that were found and checked last may be tried while nobody says more."""
        return bool(self._places) and asyncio.get_running_loop().time() < self._last_known_until

    async def _ask(self) -> list[Place]:
        target = self._target
        try:
            found = await self._resolve(target.name, target.port)
        except (OSError, UnicodeError) as error:
            if self._serve_still and not (isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_NAME):
                return self._places
            self._last_known_until = 0.0
            text = getattr(error, "strerror", None) or str(error)
            raise NoAnswer(f"the name {target.name} was not found: {text}", may_have_arrived=False) from None
        self._last_known_until = 0.0  # until those that were found now are checked
        if not self._allows_private:
            allowed = set(public(target.name, [place.ip for place in found], self._where))
            found = [place for place in found if place.ip in allowed]
        elif not found:
            raise NoAnswer(f"the name {target.name} has no address", may_have_arrived=False)
        now = asyncio.get_running_loop().time()
        self._silent = {place: end for place, end in self._silent.items() if end > now and place in found}
        self._places = sorted(_in_turns(found), key=self._silent.__contains__)[:_MOST_ADDRESSES]
        self._until = now + _KEPT_S
        self._last_known_until = self._until + _LAST_KNOWN_S
        return self._places

    def _asked(self, asking: "asyncio.Task[list[Place]]") -> None:
        self._asking = None
        if not asking.cancelled():
            asking.exception()  # those who wait for it have it; they may all have gone


def _in_turns(found: Sequence[Place]) -> list[Place]:
    """In their order, but the two protocols in turns: one of them may lead nowhere, at all of its addresses."""
    first = [place for place in found if place.family == found[0].family]
    second = [place for place in found if place.family != found[0].family]
    return [place for pair in zip_longest(first, second) for place in pair if place is not None]


async def resolve_by_system(name: str, port: int) -> Sequence[Place]:
    """In a thread of its own: those of the loop are few, and a name server that is silent would keep all of them from
    the other routes."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Sequence[Place]] = loop.create_future()

    def look_up() -> None:
        try:
            places, failure = _look_up(name, port), None
        except (OSError, UnicodeError) as error:
            places, failure = [], error
        try:
            loop.call_soon_threadsafe(tell, places, failure)
        except RuntimeError:
            return  # the loop has ended meanwhile

    def tell(places: Sequence[Place], failure: Exception | None) -> None:
        if found.done():
            return
        if failure is not None:
            found.set_exception(failure)
        else:
            found.set_result(places)

    threading.Thread(target=look_up, name=f"look up {name}", daemon=True).start()
    return await found


def _look_up(name: str, port: int) -> list[Place]:
    flags = socket.AI_ADDRCONFIG
    try:
        answers = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=flags)
    except socket.gaierror as error:
        if error.errno != socket.EAI_ADDRFAMILY and error.errno != socket.EAI_NONAME:
            raise
        # The loopback's own family does not count as configured.
        answers = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(Place(family, _with_zone(address)) for family, _, _, _, address in answers))


def _with_zone(address: tuple[Any, ...]) -> tuple[Any, ...]:
    """uvloop takes the first two parts of an address only: the zone of a link-local one must stand in the first."""
    return (f"{address[0]}%{address[3]}", *address[1:]) if len(address) == 4 and address[3] else address
