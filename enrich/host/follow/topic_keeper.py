"""Keeps a table as its topic is: loads it, follows it, loads it anew beside the old rows where nothing else is right.

Until a new load is complete the old rows answer, and complete_through stands still. `topic_rows` knows whether rows can
be followed on; here is what is then done, by the phases of life.py.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress

from enrich.base.errors import EnrichError
from enrich.codecs import NotAskedYet
from enrich.host.claims.moments import Clocks
from enrich.host.claims.notes import TOPIC_ID, epochs_of
from enrich.host.claims.watch import Answer
from enrich.host.follow.life import Happening, Phase, new_life
from enrich.host.follow.tailer import Tailed, Tailer
from enrich.host.follow.topic_rows import TopicRows
from enrich.host.ipc.header import TableState
from enrich.host.ipc.imports import Import
from enrich.host.load.loading import Loaded, Progress
from enrich.host.tables import TopicTable
from enrich.host.trouble import Trouble, reason_of
from enrich.kafka import TopicSettings
from stores.protocol import TableUpdate
from stores.rocks import Prepared, RocksStore
from stores.snapshots import Snapshot

_log = logging.getLogger(__name__)

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
        self._rows = TopicRows(table, store, clocks)
        self._answer: Answer | None = None
        self._no_answer: EnrichError | None = None
        self._life = new_life()
        self._must_rebuild: str | None = None
        """Why the rows cannot be kept up to date from where they are."""
        self._import: Import | None = None
        self._loading: Future[Loaded | None] | None = None
        self._progress: Progress | None = None
        self._trouble = Trouble(clocks.wall)
        self._added: set[int] = set()
        """Partitions that the rows have nothing of yet, and that are read from their first record for them."""
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

    @property
    def is_at_rest(self) -> bool:
        return self._phase == Phase.FOLLOWING and self._import is None and self._decoded is None

    def hear(self, answer: Answer | EnrichError) -> None:
        if isinstance(answer, EnrichError):
            self._no_answer = answer
            return
        self._answer, self._no_answer = answer, None
        self._rows.settings = answer.settings or TopicSettings()
        if self._phase != Phase.FOLLOWING:
            return
        self._must_rebuild = self._rows.why_rebuild(answer, self._rows.settings.safe_lag_ms)
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
        """Loads the table beside the rows that it has, as if they could not be followed any more. If it is set aside,
        that is what is tried next; a load that runs already is as good."""
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
        self._trouble.met(error, "a table cannot be kept and is set aside", table=self.name)

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
        if tailed is not None and tailed.fault is not None:
            # The tailer has left the topic already.
            self._life.happens(Happening.LEFT)
            self._must_rebuild = str(tailed.fault)
            _log.warning("a table must be loaded anew", extra={"table": self.name, "reason": self._must_rebuild})
            return None
        tailed = self._own_of(tailed) if tailed is not None else None
        if tailed is None or not self._rows.moves_on(tailed.positions):
            return self._rows.update_of_through()
        self._must_rebuild = self._rows.why_left_behind()
        if self._must_rebuild is not None:
            self._leave()
            return None
        return self._rows.update_of(tailed)

    def _own_of(self, tailed: Tailed) -> Tailed:
        """Another table of the topic may have met new partitions first, and be ahead in them."""
        own = self._rows.kept.positions.keys() | self._added
        if tailed.positions.keys() <= own:
            return tailed
        return Tailed(
            [message for message in tailed.messages if message.partition() in own],
            {partition: offset for partition, offset in tailed.positions.items() if partition in own},
            {partition: epoch for partition, epoch in tailed.epochs.items() if partition in own},
        )

    def state(self) -> TableState:
        if self._phase == Phase.FOLLOWING:
            self._rows.published()
        table, known, is_ready = self._rows.kept, self._rows.since, self._rows.through is not None
        return TableState(
            ready=is_ready,
            complete_through=None if known is None else known.on_clock_of(self._clocks.now()),
            rows=table.rows,
            split_keys=table.split_keys,
            reason=self._reason(is_ready=is_ready),
            next_try=self._trouble.next_try_ms,
            topic_id=table.notes.get(TOPIC_ID),
            progress=self._how_far() if self._phase == Phase.LOADING or not is_ready else {},
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

    def _begin(self, answer: Answer) -> None:
        """Follows the topic from where the rows are, or loads them."""
        self._rows.require_compacted(answer.settings)
        if self._import is not None:
            self._import.begun = True
            self._start_load(answer, self._import.snapshot)
            return
        has_rows = bool(self._rows.kept.positions)
        if has_rows and self._must_rebuild is None:
            self._must_rebuild = self._rows.why_rebuild(answer, self._rows.settings.safe_absence_ms)
        if has_rows and self._must_rebuild is None:
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
        self._rows.loaded(loaded)
        self._follow(None)
        self._trouble.is_over()
        if wanted is not None:
            wanted.done(self._rows.kept.rows)

    def _follow(self, answer: Answer | None) -> None:
        """Reads the topic from where the rows are."""
        kept = self._rows.kept
        self._added.clear()
        self._tailer.follow(self.name, self.topic, kept.positions, epochs_of(kept.notes))
        self._read_on(answer)

    def _read_on(self, answer: Answer | None) -> None:
        """Reads new partitions from their first record, and takes the ends that the brokers named."""
        positions = self._rows.kept.positions
        added = () if answer is None else [p for p in answer.ends.offsets if p not in positions]
        if added:
            self._read_added(added)
        if answer is not None:
            self._rows.take_ends(answer)
            self._tailer.expect(self.topic, answer.ends.offsets)

    def _read_added(self, added: Sequence[int]) -> None:
        self._added.update(added)
        followed = self._tailer.followed[self.topic]
        # Where another table of the topic is ahead already, this one needs the first records as well.
        self._tailer.follow(self.name, self.topic, {partition: 0 for partition in added if partition in followed})
        new = [partition for partition in added if partition not in followed]
        if new:
            _log.warning("the topic has more partitions; its keys may now stand in two", extra={"topic": self.topic})
            self._tailer.follow_from_start(self.topic, new)

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

    def _how_far(self) -> dict[str, float]:
        if self._progress is not None:
            return self._progress.as_numbers()
        return {"to_come": self._rows.behind()} if self._phase == Phase.FOLLOWING else {}
