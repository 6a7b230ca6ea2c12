"""What a stage commits beside its offsets: which run and which slot wrote them, and what the slot has counted."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from enrich.base.errors import BadRecord
from enrich.stage.realtime.counts import Counts

_LONGEST = 4_000
"""Brokers take 4,096 bytes, unless they are told otherwise."""


@dataclass(frozen=True)
class Note:
    run: str
    """Of a driver: what is before the point is the same for all of its runs."""
    slot: int
    counts: Counts | None = None
    """Only one partition of a slot carries them."""

    def to_text(self) -> str:
        own = {"run": self.run, "slot": self.slot}
        if self.counts is None:
            return _text(own)
        wire = dict(self.counts.to_wire())
        # What is left out is missing from the metrics, and only there.
        for nothing in ({}, *_LEFT_OUT):
            wire |= nothing
            text = _text({**own, "counts": wire})
            if len(text.encode()) <= _LONGEST:
                break
        return text

    @classmethod
    def of_text(cls, text: str | None) -> "Note | None":
        """None for what no slot has written: a stage of another profile commits other texts."""
        try:
            content = json.loads(text or "null")
            return cls(content["run"], int(content["slot"]), _counts_in(content))
        except (ValueError, KeyError, AttributeError, TypeError):
            return None


def _counts_in(content: Mapping[str, Any]) -> Counts | None:
    """None also for those of another release: its slots own their partitions all the same, and must be fenced."""
    try:
        counts = content.get("counts")
        return None if counts is None else Counts.from_wire(counts)
    except (ValueError, KeyError, AttributeError, TypeError, BadRecord):
        return None


_LEFT_OUT: tuple[dict[str, object], ...] = ({"b": None}, {"l": None}, {"s": [], "r": {}, "whole": False}, {"w": None})
"""For want of room, one after the other: lags, then what was looked up and where events went, then the tables' ages.
How many events there were is always said."""


def _text(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))
