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

    @property
    def id(self) -> str:
        """The same for whoever sends it, and however often."""
        return f"{self.key}@{self.since_ms // 60_000}{'' if self.over_ms is None else '/over'}"


class Board:
    def __init__(self) -> None:
        self.on: dict[str, Alarm] = {}
        self.actions: list[Action] = []

    def restore(self, alarms: Iterable[Alarm]) -> None:
        for alarm in alarms:
            if alarm.over_ms is None:
                self.on[alarm.key] = alarm

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
                self.on[key] = Alarm(key, cause.text, now_ms, is_quiet=is_quiet)
                said += [] if is_quiet else [self.on[key]]
            elif known.is_quiet and not is_quiet:  # the action is over, and the cause is still there
                self.on[key] = replace(known, is_quiet=False)
                said.append(self.on[key])
        for key in [key for key in self.on if key not in there and not _is_of(key, unknown)]:
            over = replace(self.on.pop(key), over_ms=now_ms, is_sent=False)
            said += [] if over.is_quiet else [over]
        return said

    def sent(self, alarm: Alarm) -> None:
        known = self.on.get(alarm.key)
        if known is not None and known.since_ms == alarm.since_ms:
            self.on[alarm.key] = replace(known, is_sent=True)


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
