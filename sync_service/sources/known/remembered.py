"""Keeps the known rows of a topic across restarts, and rebuilds them from the topic if they cannot be used."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from enrich.base.errors import CorruptState, EnrichError
from enrich.kafka import Connection, Topics
from stores.clock import SystemClock
from sync_service.sources.known.catching_up import NOWHERE, TopicFacts, catch_up
from sync_service.sources.known.rows import KnownRows

_log = logging.getLogger("enrich.sync")


class Remembered:
    def __init__(self, directory: Path, topics: Topics, facts: TopicFacts, connection: Connection) -> None:
        self._directory = directory
        self._topics = topics
        self._facts = facts
        self._connection = connection
        self.rebuilds = 0
        self._written: dict[int, int] = {}
        """Positions that we had written to before a rebuild: readers may not see all of that yet."""
        self.known: KnownRows = self._opened()

    def follow(self, checkpoint: Callable[[], None], written: Mapping[int, int] = NOWHERE) -> int:
        """Returns when everything in the topic is known, how many records of others came. `written`: how far somebody
        wrote who did not tell the known rows: readers may not see all of that yet."""
        now = SystemClock().now_ms()
        if self.known.is_sparse:
            self._rebuild("most slots belong to rows that are gone")
        try:
            return self._catch_up(now, checkpoint, written)
        except CorruptState as error:
            self.forget(error)
            self._written = {}  # earlier end offsets mean nothing any more
            return self._catch_up(now, checkpoint, written)

    def _catch_up(self, now: int, checkpoint: Callable[[], None], written: Mapping[int, int]) -> int:
        at_least = {**self._written, **written}
        came = catch_up(self.known, self._topics, self._facts, self._connection, now, checkpoint, at_least)
        self._written = {}
        return came

    def forget(self, error: CorruptState) -> None:
        """Drops the known rows; `follow` rebuilds them."""
        self._rebuild(str(error))

    def _rebuild(self, reason: str) -> None:
        _log.warning("the known rows are rebuilt from the topic: %s", reason, extra={"topic": self._facts.name})
        self._written = dict(self.known.positions)
        self.known.close()
        self.known = KnownRows.make(self._directory, self._facts.topic_id)
        self.rebuilds += 1

    def close(self) -> None:
        try:
            self.known.flush()
        except EnrichError as error:  # what is not on disk is read from the topic again
            _log.warning("%s", error, extra={"topic": self._facts.name})
        finally:
            self.known.close()

    def _opened(self) -> KnownRows:
        if self._directory.exists():
            try:
                return KnownRows.open(self._directory)
            except CorruptState as error:
                _log.warning("the known rows are rebuilt from the topic: %s", error, extra={"topic": self._facts.name})
                self.rebuilds += 1
        return KnownRows.make(self._directory, self._facts.topic_id)
