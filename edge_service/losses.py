"""What the brokers deleted before a route had read it: logged, counted, and named in the route's status."""

import logging
from collections.abc import Sequence

from enrich.delivery.partitions.gaps import Gap
from enrich.service.meters import Meter

_MOST = 20
"""Warnings: the newest ones."""


class Losses:
    """Of one route, for as long as it exists. Written by the route's thread, read by others."""

    def __init__(self, route: str, meter: Meter, log: logging.Logger) -> None:
        self._route = route
        self._meter = meter
        self._log = log
        self.warnings: Sequence[str] = ()

    def remark(self, gap: Gap) -> None:
        what = gap.doubt or gap.cut
        self._log.error("events may be lost: %s", what, extra={"route": self._route})
        self.warnings = [*self.warnings, f"events may be lost: {what}"][-_MOST:]
        self._meter.count("gaps")
