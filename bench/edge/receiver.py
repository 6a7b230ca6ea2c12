"""A receiver that costs little: answers at once, after a round trip (paths that end in far) or never (in dead). Paths
that end in sick refuse each twentieth event once, and count the times of the others alone."""

import asyncio
import json
import re
import sys
import time
from collections import Counter, defaultdict

import httptools
import uvloop

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_REFUSED = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
_AT = re.compile(rb'"at": ([1-9][0-9]+)')
_ID = re.compile(rb'"id": ([0-9]+)')
_SICK = 20


class _State:
    def __init__(self, round_trip_s: float) -> None:
        self.round_trip_s = round_trip_s
        self.events: Counter[str] = Counter()
        self.times: defaultdict[str, list[float]] = defaultdict(list)
        self.refused: set[tuple[str, int]] = set()

    def refuses(self, path: str, sick: set[int]) -> bool:
        new = {(path, one) for one in sick} - self.refused
        self.refused |= new
        return bool(new)


class _Connection(asyncio.Protocol):
    def __init__(self, state: _State) -> None:
        self._state = state
        self._parser = httptools.HttpRequestParser(self)
        self._path = ""
        self._pieces: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment] # uvloop's is one, without being its subclass

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url.decode()

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        body, self._pieces = b"".join(self._pieces), []
        path, state = self._path, self._state
        if path.startswith("/-count"):
            self._tell({"events": state.events[path.removeprefix("/-count")]})
        elif path.startswith("/-times"):
            self._tell({"ms": state.times[path.removeprefix("/-times")]})
        elif path.endswith("sick") and (sick := {n for n in map(int, _ID.findall(body)) if n % _SICK == _SICK - 1}):
            answer = _REFUSED if state.refuses(path, sick) else _ANSWER
            asyncio.get_running_loop().call_later(state.round_trip_s, self._transport.write, answer)
        elif not path.endswith("dead"):
            state.events[path] += body.count(b'"id"')
            if b'"at": 0' not in body:
                now = time.time_ns() // 1000
                state.times[path] += [(now - int(at)) / 1000 for at in _AT.findall(body)]
            if path.endswith(("far", "sick")):
                asyncio.get_running_loop().call_later(state.round_trip_s, self._transport.write, _ANSWER)
            else:
                self._transport.write(_ANSWER)

    def _tell(self, content: object) -> None:
        body = json.dumps(content).encode()
        self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


async def _serve(round_trip_s: float) -> None:
    state = _State(round_trip_s)
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(state), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(float(sys.argv[1])))
