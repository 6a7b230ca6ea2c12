"""Produces plays of songs at a steady rate, some of them with unknown users, devices or networks."""

import json
import random
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from enrich.base.errors import EnrichError
from enrich.kafka import Connection, DeliveringProducer

_AT_FIRST, _PER_SECOND = 100, 1_000
_TICK_S = 0.005
_UNKNOWN = 0.01
_NETWORKS = ("192.0.2", "198.51.100", "203.0.113")


class Plays:
    """Produces from `start` to `stop`, few events until `speed_up`. Ids count from 0, to compare the output with."""

    def __init__(self, connection: Connection, topic: str, users: Sequence[str], devices: Sequence[str]) -> None:
        self._producer = DeliveringProducer(connection, **{"linger.ms": 1})
        self._topic = topic
        self._users = users
        self._devices = devices
        self._random = random.Random(7)  # noqa: S311 - no secret
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plays", daemon=True)
        self._failure: EnrichError | None = None
        self._per_second = _AT_FIRST
        self.sent = 0

    def start(self) -> None:
        self._thread.start()

    def speed_up(self) -> None:
        self._per_second = _PER_SECOND

    def stop(self) -> int:
        """Returns the number of plays, all acknowledged. Raises the producer's error if there was one."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._producer.close()
        if self._failure is not None:
            raise self._failure
        return self.sent

    def _run(self) -> None:
        last, due = time.monotonic(), 0.0
        try:
            while not self._stopping.wait(_TICK_S):
                now = time.monotonic()
                last, due = now, due + (now - last) * self._per_second
                while self.sent < int(due):
                    self._producer.produce(self._topic, str(self.sent).encode(), self._play(self.sent))
                    self.sent += 1
        except EnrichError as error:
            self._failure = error

    def _play(self, number: int) -> bytes:
        pick, chance = self._random.choice, self._random.random
        play = {
            "id": number,
            "user_id": "nobody" if chance() < _UNKNOWN else pick(self._users),
            "device_id": "d-unknown" if chance() < _UNKNOWN else pick(self._devices),
            "ip": "10.0.0.1" if chance() < _UNKNOWN else f"{pick(_NETWORKS)}.{self._random.randrange(256)}",
            "ts": datetime.now(UTC).isoformat(timespec="microseconds"),
        }
        return json.dumps(play, separators=(",", ":")).encode()
