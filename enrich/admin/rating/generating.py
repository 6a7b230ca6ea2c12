"""Sends events at a rate, whether those before have been taken or not: an open loop. A pipeline that stalls gets no
rest, and an event's time is when it was due, not when there was room for it."""

import http.client
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from confluent_kafka import KafkaError, KafkaException, Message

from enrich.admin.rating.samples import Samples
from enrich.kafka import Connection, new_producer
from enrich.kafka.clients.ending import discard
from enrich.kafka.clients.errors import mapped
from enrich.kafka.identity import EVENT_TIME

_TICK_S = 0.02
_SENDERS = 32
_PATIENCE_S = 10.0
LATE_S = 0.1
"""A generator whose events go later than this after they were due, one in a hundred of them, rates itself."""


@dataclass(frozen=True)
class Rest:
    """Of what was sent before, and known only in the end."""

    taken: int = 0
    why: str | None = None
    """Why others were not taken."""


class Target(Protocol):
    """For one thread."""

    def send(self, events: Sequence[bytes], time_ms: int) -> int:
        """How many were taken by now. Raises OSError or http.client.HTTPException if the request fails or is
        refused."""

    def close(self) -> Rest: ...


class HttpTarget:
    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.netloc, timeout=_PATIENCE_S)
        self._path = parts.path or "/"
        self._headers = {"content-type": "application/x-ndjson"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"

    def send(self, events: Sequence[bytes], time_ms: int) -> int:  # noqa: ARG002 - it is in the events
        try:
            self._connection.request("POST", self._path, b"\n".join(events), self._headers)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request makes a new one
            raise
        except ValueError:  # it says the token in clear
            self._connection.close()
            raise http.client.HTTPException("the token has characters that no header takes") from None
        if not 200 <= answer.status < 300:
            raise http.client.HTTPException(f"the answer was {answer.status} {answer.reason}")
        return len(events)

    def close(self) -> Rest:
        self._connection.close()
        return Rest()


class KafkaTarget:
    """An event is taken once the brokers have acknowledged it."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._producer = new_producer(connection, **{"linger.ms": 5})
        self._topic = topic
        self._acknowledged = 0
        """Since it was asked last."""
        self._why: str | None = None

    def send(self, events: Sequence[bytes], time_ms: int) -> int:
        headers: list[tuple[str, str | bytes | None]] = [(EVENT_TIME, b"%d" % time_ms)]
        for event in events:
            try:
                self._producer.produce(self._topic, event, headers=headers, on_delivery=self._reported)
            except BufferError:
                continue
            except KafkaException as exception:
                raise OSError(self._told(exception.args[0])) from exception
        self._producer.poll(0)
        return self._taken()

    def close(self) -> Rest:
        if left := self._producer.flush(_PATIENCE_S):
            self._why = self._why or f"{left:,} events were not acknowledged within {_PATIENCE_S:g} s"
            discard(self._producer)
        return Rest(self._taken(), self._why)

    def _reported(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._acknowledged += 1
        else:
            self._why = self._why or self._told(error)

    def _told(self, error: KafkaError) -> str:
        return str(mapped(error, f"topic {self._topic}"))

    def _taken(self) -> int:
        taken, self._acknowledged = self._acknowledged, 0
        return taken


@dataclass(frozen=True)
class Sent:
    due: int
    taken: int
    late_share: float
    """Of the requests: how many were sent later than `LATE_S` after they were due."""
    why: str | None
    """The first reason that was given for events that were not taken."""


def sent(rate: float, seconds: float, samples: Samples, new_target: Callable[[], Target], per_request: int) -> Sent:
    """`per_request`: most events that one holds."""
    ticks: queue.SimpleQueue[tuple[float, int] | None] = queue.SimpleQueue()
    lock, counts = threading.Lock(), {"taken": 0, "late": 0, "ticks": 0}
    failures: list[str] = []
    given_up = threading.Event()

    def work() -> None:
        target = new_target()
        while (tick := ticks.get()) is not None and not given_up.is_set():
            due_s, count = tick
            late = time.time() - due_s > LATE_S
            with lock:
                events = samples.take(count, round(due_s * 1000))
            taken = 0
            try:
                taken = target.send(events, round(due_s * 1000))
            except (OSError, http.client.HTTPException) as error:
                failures.append(str(error) or type(error).__name__)
            with lock:
                counts["taken"] += taken
                counts["late"] += late
                counts["ticks"] += 1
        rest = target.close()
        with lock:
            counts["taken"] += rest.taken
            failures.extend([] if rest.why is None else [rest.why])

    threads = [threading.Thread(target=work, name="generator") for _ in range(_SENDERS)]
    try:
        for thread in threads:
            thread.start()
        due = _pace(rate, seconds, ticks, per_request)
        for _ in threads:
            ticks.put(None)
        for thread in threads:
            thread.join()
    except BaseException:  # of a person who ends it: while they wait for more to send the process could not end
        given_up.set()
        for _ in threads:
            ticks.put(None)
        raise
    return Sent(due, counts["taken"], counts["late"] / max(counts["ticks"], 1), next(iter(failures), None))


def _pace(rate: float, seconds: float, ticks: "queue.SimpleQueue[tuple[float, int] | None]", per_request: int) -> int:
    began_s, begun, number, due = time.time(), time.monotonic(), 0, 0
    while (number + 1) * _TICK_S <= seconds:
        number += 1
        wanted = round(rate * number * _TICK_S)
        pause_s = begun + number * _TICK_S - time.monotonic()
        if pause_s > 0:
            time.sleep(pause_s)
        while wanted > due:  # all at once, in as many requests as they need
            count = min(wanted - due, per_request)
            ticks.put((began_s + number * _TICK_S, count))
            due += count
    return due
