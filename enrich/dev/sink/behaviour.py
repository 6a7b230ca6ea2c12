"""How requests are answered: well, until somebody says otherwise, for all paths or for one.

A behaviour is a list of rules. Each applies to a share of the requests. Those that apply are laid over each other in
their order: one says the status, another the delay.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from enrich.base.errors import ConfigError
from enrich.config.messages.words import Wrong
from enrich.config.types.quantities import parse_duration

OTHERS = "*"
"""Stands for the paths that have no behaviour of their own."""
MOST_PATHS = 1_000


class Ending(StrEnum):
    whole = "whole"  # as it should be
    none = "none"  # the connection is closed instead: the sender cannot know whether it was taken
    reset = "reset"  # the same, and the connection is reset
    truncated = "truncated"  # closed in the middle of the answer
    garbage = "garbage"  # bytes that are no HTTP
    hang = "hang"  # nothing, and the connection stays open
    endless = "endless"  # an answer that does not end


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is not given stays as other rules say it."""

    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    """Of the requests that it applies to."""
    times: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Only to so many, the first ones."""
    contains: str | None = None
    """Only to those whose body, once inflated, has this text."""
    status: Annotated[int, msgspec.Meta(ge=100, le=599)] | None = None
    delay: str | None = None
    answer: Ending | None = None
    headers: dict[str, str] = {}
    body: str | None = None

    def __post_init__(self) -> None:
        if self.delay is not None:
            try:
                parse_duration(self.delay)
            except Wrong as error:
                raise ValueError(f"delay: {error}") from None


@dataclass(frozen=True, slots=True)
class Reaction:
    """What is done with one request."""

    status: int = 200
    delay_s: float = 0.0
    ending: Ending = Ending.whole
    headers: bytes = b""
    """Lines, each with its end."""
    body: bytes = b""

    @property
    def takes(self) -> bool:
        """The events of the request are this receiver's now, whether the sender gets to know it or not."""
        return 200 <= self.status < 300


WELL = Reaction()


@dataclass(slots=True)
class _Kept:
    """A rule, ready to be applied."""

    rule: Rule
    contains: bytes | None
    changes: Mapping[str, Any]
    applied: int = field(default=0)


class Behaviours:
    """Which path behaves how."""

    def __init__(self, seed: int | None = None) -> None:
        self._paths: dict[str, list[_Kept]] = {}
        self._random = random.Random(seed)  # noqa: S311 - not for secrets

    def put(self, behaviours: Mapping[str, Sequence[Rule]]) -> None:
        """Sets the behaviour of these paths; no rules make one well. Raises ConfigError if there are too many paths."""
        if len(self._paths.keys() | behaviours.keys()) > MOST_PATHS:
            raise ConfigError(f"at most {MOST_PATHS} paths have a behaviour of their own")
        for path, rules in behaviours.items():
            # A path without rules is kept: it does not behave like the others then.
            self._paths[path] = [_kept(rule) for rule in rules]

    def clear(self) -> None:
        """Everything is answered well."""
        self._paths.clear()

    def shown(self) -> Mapping[str, Sequence[Rule]]:
        return {path: [kept.rule for kept in rules] for path, rules in self._paths.items()}

    def react(self, path: str, body: bytes) -> Reaction:
        if not self._paths:
            return WELL
        rules = self._paths.get(path)
        changes: dict[str, Any] = {}
        headers: dict[str, str] = {}
        for kept in self._paths.get(OTHERS, ()) if rules is None else rules:
            if self._applies(kept, body):
                kept.applied += 1
                changes |= kept.changes
                headers |= kept.rule.headers
        if headers:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            changes["headers"] = lines.encode("latin-1", "replace")
        return Reaction(**changes) if changes else WELL

    def _applies(self, kept: _Kept, body: bytes) -> bool:
        rule = kept.rule
        if rule.times is not None and kept.applied >= rule.times:
            return False
        if kept.contains is not None and kept.contains not in body:
            return False
        return rule.share >= 1 or self._random.random() < rule.share


def rules_from(text: bytes | str) -> Mapping[str, Sequence[Rule]]:
    """Behaviours by path, as JSON: `{"/a": {"status": 503, "share": 0.1}, "*": [...]}`. Raises ConfigError."""
    try:
        read = msgspec.json.decode(text, type=dict[str, Rule | list[Rule]])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"not a behaviour: {error}",
            next_step="""an example: {"/a": {"status": 503, "share": 0.1}, "*": [{"delay": "200ms"}]}""",
        ) from None
    return {path: rules if isinstance(rules, list) else [rules] for path, rules in read.items()}


def _kept(rule: Rule) -> _Kept:
    given = {
        "status": rule.status,
        "delay_s": None if rule.delay is None else parse_duration(rule.delay) / timedelta(seconds=1),
        "ending": rule.answer,
        "body": None if rule.body is None else rule.body.encode(),
    }
    changes = {name: value for name, value in given.items() if value is not None}
    return _Kept(rule, None if rule.contains is None else rule.contains.encode(), changes)
