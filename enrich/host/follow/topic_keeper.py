"""Keeps a table as its topic is: loads it, follows it, loads it anew beside the old rows where nothing else is right.

A topic can be followed as long as it is provably the one that was loaded, nothing of it was cut off, and no tombstone
can have come and gone unseen. Until a new load is complete the old rows answer, and complete_through stands still.
"""

import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress

import pyarrow as pa

from enrich.base.errors import ConfigError, EnrichError
from enrich.codecs import NotAskedYet
from enrich.host.claims.completeness import Completeness, Ends
from enrich.host.claims.gaps import Stretch, floors_over
from enrich.host.claims.moments import Clocks, Moment
from enrich.host.claims.notes import EPOCHS, TOPIC_ID, complete_note, complete_of, epochs_of
from enrich.host.claims.watch import Answer
from enrich.host.follow.life import Happening, Phase, new_life
from enrich.host.follow.tailer import Tailed, Tailer
from enrich.host.ipc.header import TableState
from enrich.host.ipc.imports import Import
from enrich.host.load.loading import Loaded, Progress
from enrich.host.tables import TopicTable
from enrich.host.trouble import Trouble, reason_of
from enrich.kafka import TopicSettings
from enrich.kafka.records import row_versions_of
from stores.protocol import TableUpdate
from stores.rocks import Prepared, RocksStore
from stores.snapshots import Snapshot
from stores.table import HistoryFloor, Offsets, row_versions

_log = logging.getLogger(__name__)

_SAVE_EVERY_MS = 60_000
"""How often a table that does not change saves up to when it is complete, to be compared after a restart."""

Load = Callable[[TopicTable, Answer, Callable[[Progress], None], Snapshot | None], Loaded | None]
"""Loads a table whole, from this snapshot when one is given. None when it was told to stop."""


class TopicKeeper:
    """See `Keeper`."""

    def __init__(
        self,
        table: TopicTable,
        store: RocksStore,
        tailer: Tailer,
        load: Load,
        threads: Executor,
        decoding: Executor,
        clocks: Clocks,
    ) -> None:
        """`threads`: for loads; `decoding`: for what waits for a server before it can be decoded."""
        self._table = table
        self._store = store
        self._tailer = tailer
        self._load = load
        self._threads = threads
        self._decoding = decoding
        self._clocks = clocks
        kept = store.tables[table.name]
        self._completeness = Completeness(complete_of(kept.notes, kept.complete_through, clocks.now()))
        self._answer: Answer | None = None
        self._no_answer: EnrichError | None = None
        self._life = new_life()
        self._must_rebuild: str | None = None
        """Why the rows cannot be kept up to date from where they are."""
        self._import: Import | None = None
        self._loading: Future[Loaded | None] | None = None
        self._progress: Progress | None = None
        self._trouble = Trouble(clocks.wall, "a table cannot be kept and is set aside", table=table.name)
        self._held: TableUpdate | None = None
        """What came and could not be decoded."""
        self._decoded: Future[Prepared] | None = None
        """The same, while a thread that may wait decodes it."""

    @property
    def name(self) -> str:
        return self._table.name

    @property
    def topic(self) -> str:
        return self._table.topic

    def hear(self, answer: Answer | EnrichError) -> None:
        if isinstance(answer, EnrichError):
            self._no_answer = answer
            return
        self._answer, self._no_answer = answer, None
        if self._phase != Phase.FOLLOWING:
            return
        self._must_rebuild = self._why_rebuild(answer, self._settings.safe_lag_ms)
        if self._must_rebuild is not None:
            self._leave()
            return
        self._read_on(answer)

    def take_in(self, wanted: Import) -> None:
        """Loads the table anew from a snapshot, beside the rows that it has. `wanted` hears how that ends."""
        if self._import is not None:
            wanted.refuse("another import into this table is under way")
            return
        self._import = wanted

    def load_anew(self) -> None:
        """Loads the table beside the rows that it has, as if they could not be followed any more."""
        if self._phase == Phase.FOLLOWING or self._held is not None:
            self._must_rebuild = "somebody asked for it"
            self._begin_anew()

    def step(self) -> None:
        if self._import is not None:
            self._begin_anew()
        if self._phase == Phase.SET_ASIDE and not self._trouble.is_waiting():
            self._life.happens(Happening.PAUSE_OVER if self._held is None else Happening.PAUSE_OVER_UNDECODED)
        if self._phase == Phase.LOADING and self._loading is not None and self._loading.done():
            self._take_load(self._loading)
        elif self._phase == Phase.DECODING and self._decoded is None and self._held is not None:
            # A decoder that waits for no server may have failed: it, too, is better tried beside the loop.
            self._decoded = self._decoding.submit(self._store.prepare, self.name, self._held)
        elif self._phase == Phase.WAITING and self._answer is not None:
            self._begin(self._answer)

    def update(self, tailed: Tailed | None) -> Prepared | None:
        if self._decoded is not None:
            return self._take_decoded(self._decoded)
        update = self._update(tailed) if self._phase == Phase.FOLLOWING else None
        if update is None:
            return None
        try:
            return self._store.prepare(self.name, update, self._table.at_once)
        except Exception as error:
            self._tailer.leave(self.name, self.topic)
            self._life.happens(Happening.NOT_DECODED)
            self._held = update
            if isinstance(error, NotAskedYet):
                return None  # no failure: it is asked for
            raise

    def failed(self, error: Exception) -> None:
        # What was read and not published is read again from where the rows are.
        if self._phase == Phase.FOLLOWING:
            with suppress(EnrichError):
                self._tailer.leave(self.name, self.topic)
        self._life.happens(Happening.FAILED)
        self._trouble.met(error)

    def _take_decoded(self, decoded: Future[Prepared]) -> Prepared | None:
        if not decoded.done():
            return None
        self._decoded = None
        prepared = decoded.result()
        # Published before anything else happens, or read again: see `failed`.
        self._held = None
        self._life.happens(Happening.DECODED)
        self._trouble.is_over()
        return prepared

    def _update(self, tailed: Tailed | None) -> TableUpdate | None:
        now = self._clocks.now()
        moment = self._completeness.complete_through
        through = None if moment is None else moment.on_clock_of(now)
        if tailed is not None and tailed.fault is not None:
            # The tailer has left the topic already.
            self._life.happens(Happening.LEFT)
            self._must_rebuild = str(tailed.fault)
            _log.warning("a table must be loaded anew", extra={"table": self.name, "reason": self._must_rebuild})
            return None
        kept = self._store.tables[self.name]
        if tailed is not None and _moves_on(kept.positions, tailed.positions):
            # Not only when the brokers answer: the loop may have stood still since, or taken a load long after its end.
            self._must_rebuild = self._why_too_late(now, self._settings.safe_lag_ms)
            if self._must_rebuild is not None:
                self._leave()
                return None
            versions = row_versions_of(tailed.messages)
            # Another table of the same topic may have gone back in it. This one does not.
            positions = {p: max(offset, kept.positions.get(p, 0)) for p, offset in tailed.positions.items()}
            floors = self._floors(kept.positions, positions, versions, now)
            return TableUpdate(versions, positions, through, floors, self._notes_with(tailed.epochs, moment))
        if through is not None and not 0 <= through - (kept.complete_through or 0) < _SAVE_EVERY_MS:
            return TableUpdate(row_versions(()), {}, through, notes=self._notes_with({}, moment))
        return None

    def state(self) -> TableState:
        table = self._store.tables[self.name]
        now = self._clocks.now()
        if self._phase == Phase.FOLLOWING:
            self._completeness.published(table.positions, now, self._settings.untouched_ms)
        through = self._completeness.complete_through
        known = self._completeness.since
        return TableState(
            # Complete to the ends that were captured since this agent started: only then may anybody read.
            ready=through is not None,
            complete_through=None if known is None else known.on_clock_of(now),
            rows=table.rows,
            split_keys=table.split_keys,
            reason=self._reason(is_ready=through is not None),
            next_try=self._trouble.next_try_ms,
            topic_id=table.notes.get(TOPIC_ID),
            progress=self._how_far(table.positions) if self._phase == Phase.LOADING or through is None else {},
        )

    def close(self) -> None:
        if self._loading is not None:
            self._loading.cancel()

    @property
    def _phase(self) -> Phase:
        return self._life.state

    def _leave(self) -> None:
        """Stops reading the topic, until it begins again from where the rows are."""
        self._life.happens(Happening.LEFT)
        self._tailer.leave(self.name, self.topic)

    def _begin_anew(self) -> None:
        """Drops what was read and is not published: it will be read again. A load that runs is not disturbed."""
        if self._phase == Phase.FOLLOWING:
            self._leave()
        elif self._phase == Phase.DECODING:
            self._life.happens(Happening.DROPPED)
        self._held = self._decoded = None

    @property
    def _notes(self) -> dict[str, str]:
        return dict(self._store.tables[self.name].notes)

    def _begin(self, answer: Answer) -> None:
        """Follows the topic from where the rows are, or loads them."""
        self._require_compacted(answer.settings)
        if self._import is not None:
            self._import.begun = True
            self._start_load(answer, self._import.snapshot)
            return
        kept = self._store.tables[self.name]
        if kept.positions and self._must_rebuild is None:
            self._must_rebuild = self._why_rebuild(answer, self._settings.safe_absence_ms)
        if kept.positions and self._must_rebuild is None:
            self._life.happens(Happening.CAN_FOLLOW)
            self._follow(answer)
            self._trouble.is_over()
            return
        if self._must_rebuild is not None:
            _log.warning("a table is loaded anew", extra={"table": self.name, "reason": self._must_rebuild})
        self._start_load(answer, None)

    def _start_load(self, answer: Answer, snapshot: Snapshot | None) -> None:
        self._life.happens(Happening.MUST_LOAD)
        self._progress = None
        self._loading = self._threads.submit(self._load, self._table, answer, self._take_progress, snapshot)

    def _take_progress(self, progress: Progress) -> None:
        self._progress = progress

    def _take_load(self, load: Future[Loaded | None]) -> None:
        self._loading = self._progress = None
        wanted = self._import if self._import is not None and self._import.begun else None
        if wanted is not None:
            self._import = None
        try:
            loaded = load.result()
        except Exception as error:
            if wanted is None:
                raise
            self._life.happens(Happening.LOAD_ENDED)
            wanted.refuse(reason_of(error))  # the rows are what they were, and are followed on
            return
        if loaded is None:
            self._life.happens(Happening.LOAD_ENDED)
            return
        self._life.happens(Happening.LOADED)
        self._must_rebuild = None
        # What was asked before is about another topic, or about partitions that were cut short since.
        self._completeness = Completeness.of(Ends(loaded.asked, loaded.ends))
        self._follow(None)
        self._trouble.is_over()
        if wanted is not None:
            wanted.done(self._store.tables[self.name].rows)

    def _follow(self, answer: Answer | None) -> None:
        """Reads the topic from where the rows are."""
        self._tailer.follow(self.name, self.topic, self._store.tables[self.name].positions, epochs_of(self._notes))
        self._read_on(answer)

    def _read_on(self, answer: Answer | None) -> None:
        """Reads new partitions from their first record, and takes the ends that the brokers named."""
        positions = self._store.tables[self.name].positions
        added = () if answer is None else [p for p in answer.ends.offsets if p not in positions]
        followed = self._tailer.followed[self.topic]
        # Where another table of the topic is ahead already, this one needs the first records as well.
        self._tailer.follow(self.name, self.topic, {partition: 0 for partition in added if partition in followed})
        new = [partition for partition in added if partition not in followed]
        if new:
            _log.warning("the topic has more partitions; its keys may now stand in two", extra={"topic": self.topic})
            self._tailer.follow_from_start(self.topic, new)
        if answer is not None:
            # Only now: the ends of another topic of this name would prove nothing.
            self._completeness.asked(Ends(answer.asked, answer.ends.offsets))
            self._completeness.published(positions, self._clocks.now(), self._settings.untouched_ms)

    def _floors(
        self, begin: Offsets, end: Offsets, versions: pa.RecordBatch, now: Moment
    ) -> Mapping[int, HistoryFloor]:
        """Raised where the topic's cleaner may have been ahead of what was read just now."""
        settings, known = self._settings, self._completeness
        stretches = {
            partition: Stretch(offset, known.is_at_end(partition, offset, now, settings.open_ms))
            for partition, offset in end.items()
            if offset > begin.get(partition, 0)
            and ((proven := known.proven(partition)) is None or proven.until(now) >= settings.open_ms)
        }
        return floors_over(stretches, versions, settings.min_compaction_lag_ms, now.wall_ms) if stretches else {}

    def _require_compacted(self, settings: TopicSettings | None) -> None:
        if not self._table.must_be_compacted or (settings is not None and settings.is_compacted_only):
            return
        if settings is None:
            raise ConfigError(
                "whether the topic is compacted cannot be read with these rights",
                where=f"topic {self.topic}",
                next_step="allow DescribeConfigs on the topic, or give the table `compaction: any`",
            )
        raise ConfigError(
            f"the topic's cleanup.policy is {','.join(sorted(settings.cleanup_policy))}, so that rows vanish by age "
            "and nobody is told",
            where=f"topic {self.topic}",
            next_step="set cleanup.policy=compact, or give the table `compaction: any`",
        )

    @property
    def _settings(self) -> TopicSettings:
        answered = None if self._answer is None else self._answer.settings
        return answered or TopicSettings()

    def _why_rebuild(self, answer: Answer, safe_ms: float) -> str | None:
        """Why the topic cannot be followed from where the rows are. None: it can."""
        if answer.ends.topic_id != self._notes.get(TOPIC_ID):
            return "the topic was deleted and recreated"
        return self._why_too_late(answer.asked, safe_ms)

    def _why_too_late(self, now: Moment, safe_ms: float) -> str | None:
        """Why what is read now may lack a tombstone that the topic had since the rows were last complete."""
        since = self._completeness.since
        if since is None:
            return "when it was last complete is later than now: the clock was set back, and tombstones may be missed"
        away_ms = since.until(now)
        if away_ms <= safe_ms:
            return None
        return (
            f"last complete {away_ms / 1000:,.0f} s ago: tombstones may have been missed, "
            f"since the topic keeps them for {self._settings.delete_retention_ms / 1000:,.0f} s"
        )

    def _notes_with(self, epochs: Offsets, complete: Moment | None) -> dict[str, str]:
        known = json.loads(self._notes.get(EPOCHS, "{}"))
        newest = {**known, **{str(partition): epoch for partition, epoch in epochs.items()}}
        return {**self._notes, EPOCHS: json.dumps(newest), **({} if complete is None else complete_note(complete))}

    def _reason(self, *, is_ready: bool) -> str | None:
        if self._trouble.reason is not None:
            return self._trouble.reason
        if self._no_answer is not None:
            return str(self._no_answer)
        if self._import is not None:
            return f"taking in {self._import.snapshot.path}"
        if self._must_rebuild is not None:
            return f"loading anew: {self._must_rebuild}"
        if is_ready:
            return None
        return "loading" if self._phase == Phase.LOADING else "catching up"

    def _how_far(self, positions: Offsets) -> dict[str, float]:
        if self._progress is not None:
            return self._progress.as_numbers()
        return {"to_come": self._completeness.behind(positions)} if self._phase == Phase.FOLLOWING else {}


def _moves_on(positions: Offsets, came: Offsets) -> bool:
    # A partition that was added has no position yet: its end moves on although nothing is in it.
    return any(offset > positions.get(partition, -1) for partition, offset in came.items())
