"""Which alarms are on: each cause is said once, and its end once; quiet while an announced action goes on."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from observe_service.alarms.causes import Cause


@dataclass(frozen=True)
class Action:
    """Announced by a person: what it causes is no surprise."""

    text: str
    from_ms: int
    until_ms: int


@dataclass(frozen=True)
class Alarm:
    key: str
    text: str
    since_ms: int
    over_ms: int | None = None
    is_quiet: bool = False
    """It came while an announced action went on: it is shown, and nobody is told."""
    is_sent: bool = False
    again: int = 0
    """How often the same cause had come and gone in this minute: whoever has its id already takes it for a repeat."""

    @property
    def id(self) -> str:
        """The same for whoever sends it, and however often."""
        again = f".{self.again}" if self.again else ""
        return f"{self.key}@{_minute(self)}{again}{'' if self.over_ms is None else '/over'}"


class Board:
    def __init__(self) -> None:
        self.on: dict[str, Alarm] = {}
        self.actions: list[Action] = []
        self._over: dict[str, Alarm] = {}
        """The last of each key."""

    def restore(self, alarms: Iterable[Alarm]) -> None:
        for alarm in alarms:
            (self.on if alarm.over_ms is None else self._over)[alarm.key] = alarm

    def update(self, causes: Iterable[Cause], now_ms: int, unknown: Collection[str] = ()) -> Sequence[Alarm]:
        """What is to be said: alarms that are new, and those that are over. `unknown`: the keys of alarms of
        which nothing is known now, or how they begin, up to a space or a slash; those that are on stay on."""
        self.actions = [action for action in self.actions if action.until_ms > now_ms]
        is_announced = any(action.from_ms <= now_ms for action in self.actions)
        there = {cause.key: cause for cause in causes}
        said: list[Alarm] = []
        for key, cause in there.items():
            known = self.on.get(key)
            is_quiet = is_announced and not cause.is_loss
            if known is None:
                self.on[key] = self._numbered(Alarm(key, cause.text, now_ms, is_quiet=is_quiet))
                said += [] if is_quiet else [self.on[key]]
            elif known.is_quiet and not is_quiet:  # the action is over, and the cause is still there
                self.on[key] = replace(known, is_quiet=False)
                said.append(self.on[key])
        for key in [key for key in self.on if key not in there and not _is_of(key, unknown)]:
            over = self._over[key] = replace(self.on.pop(key), over_ms=now_ms, is_sent=False)
            said += [] if over.is_quiet else [over]
        return said

    def _numbered(self, alarm: Alarm) -> Alarm:
        before = self._over.get(alarm.key)
        if before is None or _minute(before) != _minute(alarm):
            return alarm
        return replace(alarm, again=before.again + 1)

    def sent(self, alarm: Alarm) -> None:
        known = self.on.get(alarm.key)
        if known is not None and known.since_ms == alarm.since_ms:
            self.on[alarm.key] = replace(known, is_sent=True)


def _minute(alarm: Alarm) -> int:
    return alarm.since_ms // 60_000


def _is_of(key: str, some: Collection[str]) -> bool:
    """A whole key is no beginning: there is a route `acme`, and one `acme2`."""
    return key in some or key.startswith(tuple(each for each in some if each.endswith((" ", "/"))))


def as_json(alarm: Alarm, pipeline: str) -> Mapping[str, object]:
    """As it is posted, and as the page has it."""
    return {
        "pipeline": pipeline,
        "alarm": alarm.key,
        "text": alarm.text,
        "state": "on" if alarm.over_ms is None else "over",
        "since_ms": alarm.since_ms,
        "over_ms": alarm.over_ms,
    }
