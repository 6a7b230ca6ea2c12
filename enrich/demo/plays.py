"""Makes plays of songs, some of them with unknown users, devices or networks."""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime

_UNKNOWN = 0.01
_NETWORKS = ("192.0.2", "198.51.100", "203.0.113")


class Plays:
    """Ids count from 0."""

    def __init__(self, users: Sequence[str], devices: Sequence[str]) -> None:
        self._users = users
        self._devices = devices
        self._random = random.Random(7)  # noqa: S311 - no secret
        self._made = 0

    def next(self) -> str:
        """A line of JSON, with the time of now."""
        pick, chance = self._random.choice, self._random.random
        play = {
            "id": self._made,
            "user_id": "nobody" if chance() < _UNKNOWN else pick(self._users),
            "device_id": "d-unknown" if chance() < _UNKNOWN else pick(self._devices),
            "ip": "10.0.0.1" if chance() < _UNKNOWN else f"{pick(_NETWORKS)}.{self._random.randrange(256)}",
            "ts": datetime.now(UTC).isoformat(timespec="microseconds"),
        }
        self._made += 1
        return json.dumps(play, separators=(",", ":"))
