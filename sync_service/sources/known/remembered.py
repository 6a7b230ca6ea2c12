"""What is known of a topic, kept through restarts; made again from the topic when it cannot be used."""

import logging
from collections.abc import Callable
from pathlib import Path

from enrich.base.errors import CorruptState, EnrichError
from enrich.kafka import Connection, Topics
from stores.clock import SystemClock
from sync_service.sources.known.catching_up import TopicFacts, catch_up
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
        """How far we had written when what was known was forgotten: readers may not see all of that yet."""
        self.known: KnownRows = self._opened()

    def follow(self, checkpoint: Callable[[], None]) -> None:
        """Returns once all that the topic holds is known."""
        now = SystemClock().now_ms()
        if self.known.is_sparse:
            self._make_anew("most of what is known is of rows that are gone")
        try:
            self._catch_up(now, checkpoint)
        except CorruptState as error:
            self.forget(error)
            self._written = {}  # where the topic ended before means nothing any more
            self._catch_up(now, checkpoint)

    def _catch_up(self, now: int, checkpoint: Callable[[], None]) -> None:
        catch_up(self.known, self._topics, self._facts, self._connection, now, checkpoint, self._written)
        self._written = {}

    def forget(self, error: CorruptState) -> None:
        """Nothing is known any more; `follow` makes it again."""
        self._make_anew(str(error))

    def _make_anew(self, reason: str) -> None:
        _log.warning("what is known of the topic is made again: %s", reason, extra={"topic": self._facts.name})
        self._written = dict(self.known.positions)
        self.known.close()
        self.known = KnownRows.make(self._directory, self._facts.topic_id)
        self.rebuilds += 1

    def close(self) -> None:
        try:
            self.known.flush()
        except EnrichError as error:  # what is not on the disk is read from the topic again
            _log.warning("%s", error, extra={"topic": self._facts.name})
        finally:
            self.known.close()

    def _opened(self) -> KnownRows:
        if self._directory.exists():
            try:
                return KnownRows.open(self._directory)
            except CorruptState as error:
                _log.warning("what is known of the topic is made again: %s", error, extra={"topic": self._facts.name})
                self.rebuilds += 1
        return KnownRows.make(self._directory, self._facts.topic_id)
