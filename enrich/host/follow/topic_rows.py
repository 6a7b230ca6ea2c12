"""The rows of a table beside its topic: whether they can be followed on, and what an update of them may claim.

Rows can be followed on as long as the topic is provably the one that they came from, and no tombstone of it can have
come and gone unseen. See docs/local-store.md.
"""

import json
from collections.abc import Mapping

import pyarrow as pa

from enrich.base.errors import ConfigError
from enrich.host.claims.completeness import Completeness, Ends
from enrich.host.claims.gaps import Stretch, floors_over
from enrich.host.claims.moments import Clocks, Moment
from enrich.host.claims.notes import EPOCHS, TOPIC_ID, complete_note, complete_of
from enrich.host.claims.watch import Answer
from enrich.host.follow.tailer import Tailed
from enrich.host.load.loading import Loaded
from enrich.host.tables import TopicTable
from enrich.kafka import TopicSettings
from enrich.kafka.records import row_versions_of
from stores.protocol import TableUpdate
from stores.rocks import RocksStore
from stores.rocks.state import TableState
from stores.table import HistoryFloor, Offsets, row_versions

_SAVE_EVERY_MS = 60_000
"""How often a table that does not change saves up to when it is complete, to be compared after a restart."""


class TopicRows:
    """For one thread. It changes nothing in the store."""

    def __init__(self, table: TopicTable, store: RocksStore, clocks: Clocks) -> None:
        self._table = table
        self._store = store
        self._clocks = clocks
        self._completeness = Completeness(complete_of(self.kept.notes, self.kept.complete_through, clocks.now()))
        self.settings = TopicSettings()
        """The topic's, as of the brokers' last answer."""

    @property
    def kept(self) -> TableState:
        """What the store has of the table now."""
        return self._store.tables[self._table.name]

    @property
    def through(self) -> Moment | None:
        """Complete to ends that were asked for since this agent started; only then may anybody read. None: not yet."""
        return self._completeness.complete_through

    @property
    def since(self) -> Moment | None:
        """`through`, or else what the previous agent has proven."""
        return self._completeness.since

    def behind(self) -> int:
        """How many offsets are left to read."""
        return self._completeness.behind(self.kept.positions)

    def loaded(self, loaded: Loaded) -> None:
        """What was asked before is about another topic, or about partitions that were cut short since."""
        self._completeness = Completeness.of(Ends(loaded.asked, loaded.ends))

    def take_ends(self, answer: Answer) -> None:
        """Only while the topic is followed: the ends of another topic of this name would prove nothing."""
        self._completeness.asked(Ends(answer.asked, answer.ends.offsets))
        self.published()

    def published(self) -> None:
        """What the store has now is visible: ends that were asked for may be reached by it."""
        self._completeness.published(self.kept.positions, self._clocks.now(), self.settings.untouched_ms)

    def require_compacted(self, settings: TopicSettings | None) -> None:
        """`settings`: None if this user may not read them."""
        if not self._table.must_be_compacted or (settings is not None and settings.is_compacted_only):
            return
        where = f"topic {self._table.topic}"
        if settings is None:
            raise ConfigError(
                "whether the topic is compacted cannot be read with these rights",
                where=where,
                next_step="allow DescribeConfigs on the topic, or give the table `compaction: any`",
            )
        raise ConfigError(
            f"the topic's cleanup.policy is {','.join(sorted(settings.cleanup_policy))}, so that rows vanish by age "
            "and nobody is told",
            where=where,
            next_step="set cleanup.policy=compact, or give the table `compaction: any`",
        )

    def why_rebuild(self, answer: Answer, safe_ms: float) -> str | None:
        """Why the topic cannot be followed from where the rows are. None: it can."""
        if answer.ends.topic_id != self.kept.notes.get(TOPIC_ID):
            return "the topic was deleted and recreated"
        return self._why_too_late(answer.asked, safe_ms)

    def why_left_behind(self) -> str | None:
        """The same for what was polled just now. Asked again for each poll: the loop may have stood still since the
        brokers' answer, or taken a load long after its end."""
        return self._why_too_late(self._clocks.now(), self.settings.safe_lag_ms)

    def moves_on(self, came: Offsets) -> bool:
        """Whether a poll brought anything beyond the rows."""
        # A partition that was added has no position yet: its end moves on although nothing is in it.
        return any(offset > self.kept.positions.get(partition, -1) for partition, offset in came.items())

    def update_of(self, tailed: Tailed) -> TableUpdate:
        """What was polled, with positions, history floors and notes."""
        kept, now = self.kept, self._clocks.now()
        versions = row_versions_of(tailed.messages)
        # Another table of the same topic may have gone back in it. This one does not.
        positions = {p: max(offset, kept.positions.get(p, 0)) for p, offset in tailed.positions.items()}
        # With the epoch of an earlier record the brokers would call what comes after it truncated.
        epochs = {p: epoch for p, epoch in tailed.epochs.items() if tailed.positions[p] == positions[p]}
        floors = self._floors(positions, versions, now)
        return TableUpdate(versions, positions, self._through_ms(now), floors, self._notes_with(epochs))

    def update_of_through(self) -> TableUpdate | None:
        """Without records, when it is time to save up to when the rows are complete."""
        through = self._through_ms(self._clocks.now())
        if through is None or 0 <= through - (self.kept.complete_through or 0) < _SAVE_EVERY_MS:
            return None
        return TableUpdate(row_versions(()), {}, through, notes=self._notes_with({}))

    def _through_ms(self, now: Moment) -> int | None:
        return None if self.through is None else self.through.on_clock_of(now)

    def _floors(self, end: Offsets, versions: pa.RecordBatch, now: Moment) -> Mapping[int, HistoryFloor]:
        """Raised where the topic's cleaner may have been ahead of what was read just now."""
        settings, known, begin = self.settings, self._completeness, self.kept.positions
        stretches = {
            partition: Stretch(offset, known.is_at_end(partition, offset, now, settings.open_ms))
            for partition, offset in end.items()
            if offset > begin.get(partition, 0)
            and ((proven := known.proven(partition)) is None or proven.until(now) >= settings.open_ms)
        }
        return floors_over(stretches, versions, settings.min_compaction_lag_ms, now.wall_ms) if stretches else {}

    def _why_too_late(self, now: Moment, safe_ms: float) -> str | None:
        """Why what is read now may lack a tombstone that the topic had since the rows were last complete."""
        if self.since is None:
            return "when it was last complete is later than now: the clock was set back, and tombstones may be missed"
        away_ms = self.since.until(now)
        if away_ms <= safe_ms:
            return None
        return (
            f"last complete {away_ms / 1000:,.0f} s ago: tombstones may have been missed, "
            f"since the topic keeps them for {self.settings.delete_retention_ms / 1000:,.0f} s"
        )

    def _notes_with(self, epochs: Offsets) -> dict[str, str]:
        notes = self.kept.notes
        newest = json.loads(notes.get(EPOCHS, "{}")) | {str(partition): epoch for partition, epoch in epochs.items()}
        complete = {} if self.through is None else complete_note(self.through)
        return {**notes, EPOCHS: json.dumps(newest), **complete}
