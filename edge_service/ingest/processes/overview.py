"""All processes of ingest as one: whether they are well, what they have done, for the page and for `ingest status`."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edge_service.ingest.entry.figures import Figures, summed
from edge_service.ingest.processes.planning import Address
from edge_service.ingest.processes.reports import EntryReport, ProcessReport, ProcessState
from enrich.service.meters import Meter
from enrich.service.routes import RouteKind, RouteState, RouteStatus

_log = logging.getLogger("enrich.ingest")

_SILENT_S = 10.0
"""A process that says nothing for so long hangs."""


@dataclass
class Seen:
    """A process, as it was last heard of."""

    number: int
    pid: int
    report: ProcessReport
    at: float
    """When it reported."""


@dataclass(frozen=True)
class _Moment:
    """What is known at one moment."""

    seen: Sequence[Seen]
    figures: Mapping[str, Figures]
    other: Mapping[str, Mapping[int, int]]
    restarts: int
    why_ended: Mapping[int, str]


@dataclass
class Overview:
    """Written by one thread, read by those of the page."""

    addresses: Sequence[Address]
    ports: Mapping[str, int]
    clock: Callable[[], float] = time.monotonic
    is_leaving: bool = False
    restarts: int = 0
    _seen: dict[int, Seen] = field(default_factory=dict)
    _ended: dict[str, Figures] = field(default_factory=dict)
    """What processes did that have ended."""
    _ended_other: dict[str, dict[int, int]] = field(default_factory=dict)
    _why_ended: dict[int, str] = field(default_factory=dict)
    _meters: dict[str, Meter] = field(default_factory=dict)
    _moment: _Moment = field(default_factory=lambda: _Moment((), {}, {}, 0, {}))

    def __post_init__(self) -> None:
        self._meters = {name: Meter("events", clock=self.clock) for name in self._names()}
        self._refresh()

    # Written.

    def heard(self, number: int, pid: int, report: ProcessReport) -> None:
        self._seen[number] = Seen(number, pid, report, self.clock())
        if report.state is ProcessState.serving:
            self._why_ended.pop(number, None)
        self._refresh()

    def ended(self, number: int, why: str) -> None:
        seen = self._seen.pop(number, None)
        self._why_ended[number] = why
        if seen is not None:
            for name, entry in seen.report.entries.items():
                self._ended[name] = summed([self._ended.get(name, Figures()), entry.figures.ended()])
            _add(self._ended_other, seen.report.other)
        self._refresh()

    def _refresh(self) -> None:
        reports = [seen.report for seen in self._seen.values()]
        figures, other = {}, {listen: dict(answers) for listen, answers in self._ended_other.items()}
        for name in self._names():
            living = [report.entries[name].figures for report in reports if name in report.entries]
            figures[name] = summed([self._ended.get(name, Figures()), *living])
            meter = self._meters[name]
            meter.count("events", figures[name].events - meter.totals()["events"])
        for report in reports:
            _add(other, report.other)
        # One assignment: readers see the old or the new.
        self._moment = _Moment(tuple(self._seen.values()), figures, other, self.restarts, dict(self._why_ended))

    def announce(self) -> None:
        """To be called once events are taken."""
        for status in self.statuses():
            _log.info("events for topic %s are taken at %s", status.details["topic"], status.details["address"])

    # Read.

    @property
    def moment(self) -> _Moment:
        return self._moment

    def not_ready(self) -> dict[str, str]:
        """Entries that take no events, and why."""
        return {status.name: status.last_error or status.state.value for status in self.statuses() if not _runs(status)}

    def hanging(self) -> dict[str, str]:
        """Processes that only a restart can help."""
        silent = [seen.pid for seen in self._moment.seen if self._is_silent(seen)]
        return {f"process {pid}": f"has said nothing for {_SILENT_S:g} s" for pid in silent}

    def _is_silent(self, seen: Seen) -> bool:
        return seen.at < self.clock() - _SILENT_S

    def statuses(self) -> list[RouteStatus]:
        moment = self._moment
        hanging = self.hanging()
        return [self._status(name, address, moment, hanging) for address in self.addresses for name in address.entries]

    def processes(self) -> list[dict[str, Any]]:
        moment, now = self._moment, self.clock()
        living = [
            {"number": seen.number, "pid": seen.pid, "state": seen.report.state, "heard_s_ago": round(now - seen.at, 1)}
            for seen in moment.seen
        ]
        ended = [
            {"number": number, "pid": None, "state": "ended", "why": why}
            for number, why in moment.why_ended.items()
            if all(seen.number != number for seen in moment.seen)
        ]
        return [*living, *ended]

    def _names(self) -> Iterator[str]:
        for address in self.addresses:
            yield from address.entries

    def _status(self, name: str, address: Address, moment: _Moment, hanging: Mapping[str, str]) -> RouteStatus:
        figures, entry = moment.figures[name], address.entries[name]
        serving = [
            seen.report.entries[name]
            for seen in moment.seen
            if seen.report.state is ProcessState.serving and name in seen.report.entries and not self._is_silent(seen)
        ]
        state, why = self._state(serving, moment)
        scheme = "http" if entry.tls is None else "https"
        host = address.listen.rpartition(":")[0]
        warnings = [f"{which} {what}" for which, what in hanging.items()]
        warnings += sorted({warning for report in serving for warning in report.warnings})
        if state is RouteState.running:
            warnings += [f"process {number} is started again: it {ended}" for number, ended in moment.why_ended.items()]
        return RouteStatus(
            name=name,
            kind=RouteKind.ingest,
            state=state,
            rows_per_s=self._meters[name].per_second(),
            last_error=why,
            counters={
                "events": figures.events,
                "requests": sum(figures.answers.values()),
                "dead_letters": figures.dead,
                "unavailable": figures.answers.get(503, 0),
            },
            gauges={},
            details={
                "address": f"{scheme}://{host}:{self.ports[address.listen]}{entry.path}",
                "topic": entry.topic,
                "answers": {str(status): count for status, count in sorted(figures.answers.items())},
                "bytes": figures.bytes,
                "held_bytes": figures.held,
                "requests_under_way": figures.under_way,
                "connections": figures.open,
                "processes": f"{len(serving)} of {address.processes}",
                "warnings": warnings,
            },
        )

    def _state(self, serving: Sequence[EntryReport], moment: _Moment) -> tuple[RouteState, str | None]:
        if self.is_leaving:
            return RouteState.stopped, "it is being stopped"
        if not serving:
            if moment.why_ended:
                return RouteState.waiting, next(iter(moment.why_ended.values()))
            is_leaving = any(seen.report.state is ProcessState.leaving for seen in moment.seen)
            return (RouteState.stopped, "it is being stopped") if is_leaving else (RouteState.starting, None)
        trouble = next((report.trouble for report in serving if report.trouble is not None), None)
        return (RouteState.running, None) if trouble is None else (RouteState.waiting, trouble)


def _runs(status: RouteStatus) -> bool:
    return status.state is RouteState.running


def _add(total: dict[str, dict[int, int]], more: Mapping[str, Mapping[int, int]]) -> None:
    for listen, answers in more.items():
        of_listen = total.setdefault(listen, {})
        for status, count in answers.items():
            of_listen[status] = of_listen.get(status, 0) + count
