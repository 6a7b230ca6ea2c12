"""What a process of ingest says about itself, also to another process."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from edge_service.ingest.entry.figures import Figures


class ProcessState(StrEnum):
    starting = "starting"
    serving = "serving"
    leaving = "leaving"


@dataclass(frozen=True)
class EntryReport:
    trouble: str | None
    """Why nothing can be written, or nobody be known."""
    figures: Figures
    warnings: Sequence[str] = ()
    """What does not keep events from being written."""


@dataclass(frozen=True)
class ProcessReport:
    """The whole of it, at one moment. It is never changed."""

    state: ProcessState = ProcessState.starting
    entries: Mapping[str, EntryReport] = field(default_factory=dict)
    other: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By address and status: answers to requests that reached no entry."""

    def to_wire(self) -> bytes:
        return json.dumps(
            {
                "state": self.state,
                "entries": {
                    name: [each.trouble, each.figures.to_wire(), list(each.warnings)]
                    for name, each in self.entries.items()
                },
                "other": self.other,
            }
        ).encode()

    @classmethod
    def from_wire(cls, wire: bytes) -> "ProcessReport":
        data = json.loads(wire)
        return cls(
            ProcessState(data["state"]),
            {
                name: EntryReport(trouble, Figures.from_wire(figures), warnings)
                for name, (trouble, figures, warnings) in data["entries"].items()
            },
            {listen: {int(status): n for status, n in answers.items()} for listen, answers in data["other"].items()},
        )
