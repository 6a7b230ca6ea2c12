"""What the page and the API say: put together from verdicts, days, alarms and what programs say of themselves."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from enrich.config import Pipeline
from enrich.tally import minute_of
from enrich.verdict import MinuteVerdict, decoded, minute_text, nines
from enrich.verdict.days import PER_DAY
from enrich.verdict.showing import as_json
from enrich.verdict.ways import Way, named_topics_of
from observe_service.alarms.board import Board
from observe_service.alarms.board import as_json as alarm_json
from observe_service.history import History
from observe_service.observer import Observer
from observe_service.page.server import Answer, Query
from observe_service.verdicts.observation import KEPT_MINUTES
from observe_service.watching.nodes import NodesWatch

_SHOWN_MINUTES = 30
_SHOWN_DAYS = 30
_NO_LOTS = b'"lots":[]'
"""As it stands in a record, and nowhere else: within a text its quotes would be escaped."""


class State:
    """For several threads."""

    def __init__(
        self, pipeline: Pipeline, observer: Observer, history: History, board: Board, nodes: NodesWatch
    ) -> None:
        self._pipeline = pipeline
        self._observer = observer
        self._history = history
        self._board = board
        self._nodes = nodes
        self._named = named_topics_of(pipeline)
        self._shown: dict[tuple[str, int], tuple[bytes, Mapping[str, Any]]] = {}
        """Of the last half hour, each beside the record that it was made of: the page asks every second."""

    def answers(self) -> Mapping[str, Answer]:
        return {
            "state": lambda _: self.state(),
            "minute": self.minute,
            "minutes": self.minutes,
            "day": self.day,
            "days": lambda _: self.days(),
        }

    def state(self) -> Mapping[str, Any]:
        health = self._observer.health
        return {
            "pipeline": self._pipeline.name,
            "now_ms": self._observer.clock.now_ms(),
            "sla": self._sla(),
            "observer": {
                "is_ready": health.is_ready,
                "trouble": health.trouble,
                "since_s": health.since_s,
                "started_s": health.started_s,
            },
            "ways": [self._way(way) for way in self._ways],
            "minutes": self._recent(),
            "today": self.state_of_today(),
            "programs": self._nodes.shown(),
            "alarms": [alarm_json(alarm, self._pipeline.name) for alarm in [*self._board.on.values()]],
            "actions": [
                {"text": action.text, "until_ms": action.until_ms}
                for action in self._board.actions
                if action.until_ms > self._observer.clock.now_ms()
            ],
            "peak_per_s": self.peak_per_s(),
            "rating_per_s": self.rating_per_s(),
        }

    def state_of_today(self) -> Mapping[str, Mapping[str, Any]]:
        return {way.name: self._day_of(way, self._today()) for way in self._ways}

    def status(self) -> Mapping[str, Any]:
        """For `/status`, as other programs have it."""
        health = self._observer.health
        return {
            "pipeline": self._pipeline.name,
            "observer": {
                "ready": health.is_ready,
                "trouble": health.trouble,
                "reports": health.reports,
                "report_bytes": health.report_bytes,
                "verdicts": health.verdicts,
                "unreadable": health.unreadable,
                "known_until_ms": health.log_ms,
                "open_lots": len(self._observer.observation.lots.open),
            },
            "ways": [way.name for way in self._ways],
            "alarms": [alarm.key for alarm in [*self._board.on.values()]],
        }

    def minute(self, query: Query) -> Mapping[str, Any]:
        """One verdict, with every name it has."""
        way, minute = self._asked_way(query), _minute(query.get("minute", ""))
        verdict = self._verdict(way, minute)
        if verdict is None:
            raise LookupError(f"there is no verdict on {minute_text(minute)} of {way.name}: verdicts stay for two days")
        return as_json(verdict, every_name=True)

    def minutes(self, query: Query) -> Sequence[Mapping[str, Any]]:
        """Of a way, from a minute on; the last half hour by default."""
        way, now = self._asked_way(query), self._now_minute()
        since = _minute(query["since"]) if "since" in query else now - _SHOWN_MINUTES
        minutes = range(max(since, now - 2 * PER_DAY), now + 1)
        return [as_json(verdict) for minute in minutes if (verdict := self._verdict(way, minute)) is not None]

    def day(self, query: Query) -> Mapping[str, Any]:
        """A cell for each minute of a day; no cells without a verdict on any."""
        way, text = self._asked_way(query), query.get("day", "")
        day = _day(text) if text else self._today()
        return {**self._day_of(way, day), "cells": self._history.cells(way.name, day)}

    def days(self) -> Mapping[str, Any]:
        return {
            way.name: [self._day_of(way, day) for day in self._history.days(way.name)[-_SHOWN_DAYS:]]
            for way in self._ways
        }

    def verdicts_now(self) -> Sequence[MinuteVerdict]:
        """Of each way the newest that is settled, however old: whoever watches its age must not lose sight of it."""
        found = []
        for way in self._ways:
            now = self._now_minute()
            records = (self._observer.observation.record(way.name, at) for at in range(now, now - KEPT_MINUTES, -1))
            # Of one that has no lots nothing is judged. To read a thousand of them takes seconds.
            newest = next((record for record in records if record is not None and _NO_LOTS not in record), None)
            if newest is not None:
                found.append(decoded(newest))
        return found

    def peak_per_s(self) -> float:
        """Of the busiest minute, over all entries. Those that read the same topics have the same events."""
        observe = self._pipeline.observe
        if observe is None:
            return 0.0
        since = self._now_minute() - round(observe.rating.peak_over.total_seconds()) // 60
        by_entry: dict[object, list[str]] = {}
        for way in self._ways:
            entry = way.hops[0].node
            by_entry.setdefault(frozenset(way.topics or self._named.get(entry) or ()) or entry, []).append(way.name)
        return self._history.peak([*by_entry.values()], since) / 60

    def rating_per_s(self) -> float | None:
        """Of the way that can take least. None: nobody has rated one."""
        names = {way.name for way in self._ways}
        found = [rating["rating_per_s"] for rating in self._observer.ratings or () if rating["route"] in names]
        return min(found, default=None)

    @property
    def _ways(self) -> Sequence[Way]:
        return self._observer.observation.ways

    def _sla(self) -> Mapping[str, Any]:
        observe = self._pipeline.observe
        return {} if observe is None else {"p95_ms": observe.sla.p95.total_seconds() * 1000, "nines": observe.sla.nines}

    def _way(self, way: Way) -> Mapping[str, Any]:
        hops = [{"kind": hop.node.kind.name, "node": hop.node.name, "route": hop.route} for hop in way.hops]
        return {"name": way.name, "hops": hops}

    def _recent(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The last half hour of each way, the oldest first, with what is known of minutes that are not due yet."""
        with self._observer.lock:
            open_now = self._observer.observation.now(self._observer.clock.now_ms())
        now, found = self._now_minute(), dict[str, list[Mapping[str, Any]]]()
        for way in self._ways:
            ahead = {verdict.minute: verdict for verdict in open_now if verdict.route == way.name}
            minutes = range(now - _SHOWN_MINUTES, now + 1)
            shown = (
                {**as_json(ahead[minute]), "is_due": False} if minute in ahead else self._json(way.name, minute)
                for minute in minutes
            )
            found[way.name] = [each for each in shown if each is not None]
        oldest = now - _SHOWN_MINUTES
        self._shown = {key: known for key, known in [*self._shown.items()] if key[1] >= oldest}
        return found

    def _json(self, route: str, minute: int) -> Mapping[str, Any] | None:
        record = self._observer.observation.record(route, minute)
        if record is None:
            return None
        known = self._shown.get((route, minute))
        if known is None or known[0] != record:
            known = self._shown[route, minute] = (record, as_json(decoded(record)))
        return known[1]

    def _day_of(self, way: Way, day: int) -> Mapping[str, Any]:
        found = self._history.day(way.name, day)
        return {
            "day": _day_text(day),
            "up": found.up,
            "down": [minute_text(minute) for minute in found.down],
            "unknown": len(found.unknown),
            "share": found.share,
            "nines": nines(len(found.down)) if found.share is not None else None,
        }

    def _verdict(self, way: Way, minute: int) -> MinuteVerdict | None:
        record = self._observer.observation.record(way.name, minute)
        return None if record is None else decoded(record)

    def _asked_way(self, query: Query) -> Way:
        name = query.get("route", "")
        found = next((way for way in self._ways if way.name == name), None)
        if found is None:
            names = ", ".join(repr(way.name) for way in self._ways)
            raise LookupError(f"there is no route {name!r}; there are {names}")
        return found

    def _now_minute(self) -> int:
        return minute_of(self._observer.clock.now_ms())

    def _today(self) -> int:
        return self._now_minute() // PER_DAY


def _day_text(day: int) -> str:
    return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d")


def _day(text: str) -> int:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no day such as 2026-11-25") from None
    return found.toordinal() - date(1970, 1, 1).toordinal()


def _minute(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no minute such as 2026-11-25T14:31Z") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()) // 60
