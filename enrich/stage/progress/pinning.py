"""The driver's side of pins. A thread asks for the end offsets of the tables' topics; the pin of each batch is kept in
the checkpoint, so that a repeated batch gets the same answers."""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence

from enrich.base.errors import ConfigError, EnrichError, Unreachable
from enrich.kafka import Connection, TopicEnds, Topics, new_admin_client
from enrich.stage.progress.checkpoint import Checkpoint
from enrich.stage.task.freshness import FreshnessRule
from enrich.stage.task.pin import Pin, PinnedTable, expired_pin, oldest_seen
from stores.clock import SystemClock

_log = logging.getLogger(__name__)

_ASK_EVERY_S = 0.2
_PATIENCE_S = 5.0
_FOLDER = "enrich-pins"
_CLEAN_EVERY = 50


class TableEnds:
    """The newest possible pin: the last stable offsets of the tables' topics, which a thread keeps asking for."""

    def __init__(self, topics: Mapping[str, str], rules: Sequence[FreshnessRule], connection: Connection) -> None:
        """`topics`: table -> topic."""
        self._topics = topics
        self._rules = {rule.name: rule for rule in rules}
        # For tables with on_stale: wait or fail a pin must not be older than their freshness bound.
        self._bound_ms = min((r.bound_ms for r in rules if r.bound_ms is not None and r.is_watched), default=None)
        self._deadline_s = min((rule.deadline_s for rule in rules), default=_PATIENCE_S)
        self._brokers = Topics(new_admin_client(connection), deadline_s=_PATIENCE_S)
        self._changed = threading.Condition()
        self._newest: Pin | None = None
        self._why: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._ask_on, name="table-ends", daemon=True)
        self._thread.start()

    def newest(self) -> Pin:
        """Raises Unreachable if the brokers do not answer in time."""
        end = time.monotonic() + self._deadline_s
        with self._changed:
            while True:
                if self._newest is not None and self._is_young(self._newest):
                    return self._newest
                left = end - time.monotonic()
                if left <= 0:
                    raise Unreachable(
                        f"the brokers did not give the tables' end offsets within {self._deadline_s:g} s: {self._why}",
                        where=f"topics {', '.join(sorted(self._topics.values()))}",
                        next_step="check that the brokers are up, or allow more time: tables.<name>.freshness",
                    )
                self._changed.wait(left)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _is_young(self, pin: Pin) -> bool:
        return self._bound_ms is None or SystemClock().now_ms() - pin.time_ms <= self._bound_ms

    def _ask_on(self) -> None:
        while not self._stopping.is_set():
            pin = self._ask()
            if pin is not None:
                with self._changed:
                    self._newest = pin
                    self._changed.notify_all()
            self._stopping.wait(_ASK_EVERY_S)

    def _ask(self) -> Pin | None:
        asked_at, names = SystemClock().now_ms(), set(self._topics.values())
        try:
            ends = self._brokers.ends(names)
            # Again: the ends may be those of a topic that was created with the name since the id was asked for.
            after = self._brokers.identities(names)
        except EnrichError as error:
            self._why = str(error)
            return None
        tables = {}
        for table, topic in self._topics.items():
            end = ends[topic]
            if not isinstance(end, TopicEnds):
                self._why = str(end)
                if isinstance(end, ConfigError):
                    # The topic is gone, so the last pin is void: a topic created with its name is another one.
                    with self._changed:
                        self._newest = None
                return None
            known = after[topic]
            if isinstance(known, EnrichError) or known[0] != end.topic_id:
                self._why = f"topic {topic} was deleted and recreated meanwhile"
                return None
            tables[table] = PinnedTable(end.topic_id, end.offsets, oldest_seen(asked_at, self._rules[table]))
        return Pin(asked_at, tables)


class PinBook:
    """The pins of the batches of one checkpoint."""

    def __init__(self, checkpoint: Checkpoint, retained: int) -> None:
        """`retained`: how many batches Spark can go back."""
        self._checkpoint = checkpoint
        self._retained = retained
        self._cleaned_at = 0

    def require_kept_progress(self) -> None:
        """Raises ConfigError for a checkpoint of `replay: latest` that does not have the offsets of every batch."""
        recorded = self._checkpoint.batches("offsets")
        if recorded and recorded[-1] > 0 and recorded[-1] - 1 not in recorded:
            raise ConfigError(
                "replay: deterministic cannot continue here: the stage was killed while it ran with replay: latest",
                where="the stage's checkpoint",
                next_step="run it once more with replay: latest, and end it by `enrich stop` or SIGTERM",
            )

    def forget_unfinished(self) -> list[int]:
        """Deletes the pins of unfinished batches, so that they get new ones. Returns their numbers."""
        done = self._checkpoint.batches("commits")
        unfinished = [batch for batch in self._checkpoint.batches(_FOLDER) if not done or batch > done[-1]]
        for batch in unfinished:
            self._checkpoint.delete(_name(batch))
        return unfinished

    def pin_of(self, batch: int, ends: TableEnds) -> Pin:
        """The batch's pin: that of its first attempt, if there was one with the same events.

        Raises WouldLoseData if a table's topic was recreated since, and Unreachable as `ends` does.
        """
        events = self._events_of(batch)
        kept = self._read(batch, events)
        if kept is None:
            made = ends.newest()
            if self._checkpoint.create(_name(batch), json.dumps({"events": events, "pin": made.to_text()})):
                return made
            kept = self._read(batch, events)  # written by another driver: one of us is about to be fenced
            if kept is None:
                raise Unreachable(
                    "another driver wrote and deleted the pin of the batch",
                    where=_name(batch),
                    next_step="run one driver of the stage only, and start it again",
                )
        now = ends.newest()
        for table, each in kept.tables.items():
            if table in now.tables and now.tables[table].topic_id != each.topic_id:
                raise expired_pin(table, "the table's topic was recreated since")
        for table in sorted(now.tables.keys() - kept.tables.keys()):
            raise expired_pin(table, "the stage looks the table up only since then")
        return kept

    def clean(self, batch: int) -> None:
        """Deletes the pins of batches that Spark cannot go back to."""
        if batch - self._cleaned_at < _CLEAN_EVERY:
            return
        self._cleaned_at = batch
        for old in self._checkpoint.batches(_FOLDER):
            if old < batch - self._retained:
                self._checkpoint.delete(_name(old))

    def _read(self, batch: int, events: str) -> Pin | None:
        text = self._checkpoint.read(_name(batch))
        if text is None:
            return None
        content = json.loads(text)
        if content["events"] == events:
            return Pin.from_text(content["pin"])
        # Somebody rolled the checkpoint back, and the number is now that of other events.
        _log.warning("the pin of a batch is deleted: its number was that of other events", extra={"batch": batch})
        self._checkpoint.delete(_name(batch))
        return None

    def _events_of(self, batch: int) -> str:
        """A digest of the offsets from which and to which the batch reads, as Spark recorded them."""
        digest = hashlib.sha256()
        for number in (batch - 1, batch):
            text = self._checkpoint.read(f"offsets/{number}") or ""
            # Skips the log's version and the batch metadata, which come before the offsets.
            digest.update("\n".join(text.splitlines()[2:]).encode() + b"\0")
        return digest.hexdigest()


def _name(batch: int) -> str:
    return f"{_FOLDER}/{batch}"
