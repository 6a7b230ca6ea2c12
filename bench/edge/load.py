"""Senders of events over HTTP: as many requests as are answered, or so many a second, whatever the answers do."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast


@dataclass
class Heard:
    """What was answered, while it counted."""

    taken: int = 0
    """Requests with a 2xx."""
    refused: int = 0
    seconds: list[float] = field(default_factory=list)
    """From when a request was due until its answer was there."""


class Sender(asyncio.Protocol):
    """A connection. Answers come in the order of the requests, each in one piece or more."""

    def __init__(self, on_answer: Callable[["Sender", float, bool], None]) -> None:
        self._on_answer = on_answer
        self._due: deque[float] = deque()
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one, without being its subclass

    @property
    def waiting(self) -> int:
        return len(self._due)

    def send(self, request: bytes, due: float) -> None:
        self._due.append(due)
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            head = data[:end].lower()
            _, _, length = head.partition(b"content-length:")
            whole = end + 4 + int(length.split(b"\r\n", 1)[0])
            if len(data) < whole:
                break
            self._on_answer(self, self._due.popleft(), head[9:10] == b"2")
            data = data[whole:]
        self._rest = data

    def close(self) -> None:
        self._transport.close()


async def closed_loop(port: int, requests: Sequence[bytes], connections: int, seconds: float, warm_s: float) -> Heard:
    """Each connection sends the next request once it has heard the answer to the one before."""
    heard, number = Heard(), 0
    begin = time.perf_counter() + warm_s
    end = begin + seconds
    done = asyncio.Event()
    running = connections

    def next_one(sender: Sender, now: float) -> None:
        nonlocal number
        sender.send(requests[number % len(requests)], now)
        number += 1

    def answered(sender: Sender, due: float, is_good: bool) -> None:
        nonlocal running
        now = time.perf_counter()
        if begin <= now < end:
            heard.taken += is_good
            heard.refused += not is_good
            heard.seconds.append(now - due)
        if now < end:
            next_one(sender, now)
            return
        running -= 1
        if not running:
            done.set()

    senders = await _connect(port, connections, answered)
    for sender in senders:
        next_one(sender, time.perf_counter())
    await done.wait()
    for sender in senders:
        sender.close()
    return heard


async def open_loop(
    port: int, requests: Sequence[bytes], connections: int, per_s: float, seconds: float, warm_s: float
) -> Heard:
    """Sends at this rate. A request that has to wait, here or there, waits from when it was due."""
    heard = Heard()
    begin = time.perf_counter() + warm_s
    end = begin + seconds

    def answered(_: Sender, due: float, is_good: bool) -> None:
        if begin <= due < end:
            heard.taken += is_good
            heard.refused += not is_good
            heard.seconds.append(time.perf_counter() - due)

    senders = await _connect(port, connections, answered)
    started, number = time.perf_counter(), 0
    while (due := started + number / per_s) < end:
        pause = due - time.perf_counter()
        if pause > 0:
            await asyncio.sleep(pause)
        min(senders, key=lambda sender: sender.waiting).send(requests[number % len(requests)], due)
        number += 1
        if number % 64 == 0:
            await asyncio.sleep(0)  # a sender that is late must hear the answers too
    while any(sender.waiting for sender in senders):
        await asyncio.sleep(0.01)
    for sender in senders:
        sender.close()
    return heard


async def _connect(port: int, count: int, on_answer: Callable[[Sender, float, bool], None]) -> list[Sender]:
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(lambda: Sender(on_answer), "127.0.0.1", port) for _ in range(count)]
    return [protocol for _, protocol in made]
