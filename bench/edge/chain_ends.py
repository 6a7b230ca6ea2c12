"""The two ends of a whole chain, each a process of its own: senders that post events, and the endpoint that gets them.

python -m bench.edge.chain_ends send       first line of standard input: port, path, keys; then [rate, seconds] a line,
                                           answered by one line once all of it is acknowledged
python -m bench.edge.chain_ends receive    prints its port; each line of standard input is answered by a line with the
                                           ids that came since the last one, and the microseconds at which they came
"""

import asyncio
import json
import queue
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import httptools
import numpy as np
import uvloop

from bench.edge.load import Sender
from bench.kit.metadata import key_of
from bench.kit.processes import Process, started, tell

EVENTS_EACH = 50
"""Events of a request: at 5,000 a second one each 10 ms."""
EVENT_BYTES = 200
CONNECTIONS = 4

_PATIENCE_S = 60
_ID, _SENT = re.compile(rb'"id":(\d+)'), b'"sent":%016d'
_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_KEYS = 10_000


class Ends:
    """Both, from outside; made by `chain_ends`."""

    def __init__(self, receiver: Process, port: int) -> None:
        self._receiver = receiver
        self.port = port
        """Of the receiver."""
        self._sender: Process | None = None

    def connect(self, port: int, path: str, keys: int) -> None:
        """Starts the senders."""
        self._sender = started("bench.edge.chain_ends", "send")
        tell(self._sender, [port, path, keys])

    def send(self, rate: int, seconds: float) -> dict[str, Any]:
        """So many events a second. Returns the first id and the one after the last, when each request was due and when
        it was acknowledged, and how late the senders were. Raises RuntimeError if a request was refused."""
        if self._sender is None:
            raise RuntimeError("the senders are not connected")
        tell(self._sender, [rate, seconds])
        return _heard(self._sender)

    def received(self) -> tuple[list[int], list[int]]:
        """Ids and microseconds since 1970 of what came since the last call."""
        tell(self._receiver, "")
        heard = _heard(self._receiver)
        return heard["ids"], heard["us"]

    def close(self) -> None:
        for process in (self._sender, self._receiver):
            if process is None:
                continue
            try:
                process.communicate(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def chain_ends() -> Iterator[Ends]:
    receiver = started("bench.edge.chain_ends", "receive")
    ends = Ends(receiver, _heard(receiver)["port"])
    try:
        yield ends
    finally:
        ends.close()


def _heard(process: Process) -> dict[str, Any]:
    line = "" if process.stdout is None else process.stdout.readline()
    if not line:
        raise RuntimeError("an end of the chain failed")
    return dict(json.loads(line))


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


# The senders.


@dataclass
class _Round:
    """What happened to the requests of a round."""

    acknowledged: list[float] = field(default_factory=list)
    """Seconds from when each was due."""
    late: list[float] = field(default_factory=list)
    """Seconds from when it was due until it was sent."""
    refused: int = 0


def _send() -> None:
    port, path, keys = json.loads(sys.stdin.readline())
    uvloop.run(_sending(port, path, keys))


async def _sending(port: int, path: str, keys: int) -> None:
    loop = asyncio.get_running_loop()
    current = _Round()

    def answered(_: Sender, due: float, is_good: bool) -> None:
        current.acknowledged.append(time.time() - due)
        current.refused += not is_good

    senders = [
        (await loop.create_connection(lambda: Sender(answered), "127.0.0.1", port))[1] for _ in range(CONNECTIONS)
    ]
    templates = _templates(keys)
    first = 0
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        rate, seconds = json.loads(line)
        current.acknowledged, current.late, current.refused = [], [], 0
        count = round(rate * seconds / EVENTS_EACH)
        began = time.time()
        for number in range(count):
            due = began + number * EVENTS_EACH / rate
            if (pause := due - time.time()) > 0:
                await asyncio.sleep(pause)
            elif number % 16 == 0:
                await asyncio.sleep(0)  # a sender that is late must hear the answers too
            request = _request(path, templates, first + number * EVENTS_EACH, due)
            current.late.append(max(0.0, time.time() - due))
            min(senders, key=lambda sender: sender.waiting).send(request, due)
        end = time.monotonic() + _PATIENCE_S
        while len(current.acknowledged) < count and time.monotonic() < end:
            await asyncio.sleep(0.01)
        _say(
            {
                "first": first,
                "end": first + count * EVENTS_EACH,
                "began_us": round(began * 1e6),
                "unanswered": count - len(current.acknowledged),
                "refused": current.refused,
                "ack_ms": [1000 * value for value in current.acknowledged],
                "late_p99_ms": 1000 * _quantile(current.late, 99),
                "late_max_ms": 1000 * max(current.late),
            }
        )
        first += count * EVENTS_EACH
    for sender in senders:
        sender.close()


def _templates(keys: int) -> list[tuple[bytes, bytes]]:
    """What stands before and after an event's id and time."""
    random = np.random.default_rng(1)
    made = []
    for number in random.integers(0, keys, _KEYS):
        head = b'{"key_0":"%b",' % key_of(int(number)).encode()
        room = EVENT_BYTES - len(head) - len(b'"id":00000000,"sent":0000000000000000,"note":""}')
        made.append((head, b',"note":"%b"}' % (b"x" * room)))
    return made


def _request(path: str, templates: list[tuple[bytes, bytes]], first: int, due: float) -> bytes:
    sent = _SENT % round(due * 1e6)
    events = []
    for number in range(first, first + EVENTS_EACH):
        head, tail = templates[number % _KEYS]
        events.append(b'%b"id":%d,%b%b' % (head, number, sent, tail))
    body = b"\n".join(events)
    lines = f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-type: application/x-ndjson\r\ncontent-length: {len(body)}"
    return b"%b\r\n\r\n%b" % (lines.encode(), body)


def _quantile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1] if len(values) > 1 else max(values)


# The receiver.


class _Endpoint(asyncio.Protocol):
    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._parser = httptools.HttpRequestParser(self)
        self._pieces: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        body, self._pieces = b"".join(self._pieces), []
        self._take(body)
        self._transport.write(_OK)


def _receive() -> None:
    uvloop.run(_receiving())


async def _receiving() -> None:
    loop = asyncio.get_running_loop()
    ids: list[int] = []
    times: list[int] = []

    def take(body: bytes) -> None:
        now = time.time_ns() // 1000
        found = [int(number) for number in _ID.findall(body)]
        ids.extend(found)
        times.extend([now] * len(found))

    server = await loop.create_server(lambda: _Endpoint(take), "127.0.0.1", 0)
    _say({"port": server.sockets[0].getsockname()[1]})
    asked: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=[asked, loop, ended := asyncio.Event()], daemon=True).start()
    while True:
        await ended.wait()
        ended.clear()
        while not asked.empty():
            if not asked.get():
                return
            _say({"ids": ids, "us": times})
            ids.clear()
            times.clear()


def _read(lines: "queue.Queue[str]", loop: asyncio.AbstractEventLoop, came: asyncio.Event) -> None:
    """The lines of standard input as they come; an empty one at its end."""
    line = "\n"
    while line:
        line = sys.stdin.readline()
        lines.put(line)
        loop.call_soon_threadsafe(came.set)


if __name__ == "__main__":
    {"send": _send, "receive": _receive}[sys.argv[1]]()
