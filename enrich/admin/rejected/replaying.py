"""Sends letters back on their ways: record and tombstone of the letter in one transaction, so never twice."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from enrich.admin.cluster import Cluster
from enrich.admin.reading import Report, silent
from enrich.admin.rejected.choosing import Selection, is_there, letters
from enrich.admin.rejected.letter import Letter
from enrich.admin.rejected.newer import Origin, RecordId, newer_records
from enrich.admin.rejected.ways import Way, Ways, why_missing
from enrich.admin.rights import needs
from enrich.kafka.topic_settings import is_compacted
from enrich.kafka.writing.dead_letters import record_size
from enrich.kafka.writing.room import LARGEST_MESSAGE, room_by, sized_for
from enrich.kafka.writing.whole_transactions import WholeTransactions, whole_transaction

_AT_A_TIME, _BYTES_AT_A_TIME = 1_000, 32 * 2**20
_BATCH_BYTES = 16 * 2**10
"""Letters go to topics that are not known before: what is sent together must fit into each of them."""

# These texts are keys in the JSON of `enrich dlq replay`: they must not change.
CUT = "its value was cut, since the DLQ does not take it whole"
EMPTY = "whether its value was empty or null the letter does not tell"
MASKED = "it was masked, so its event is only in the topic that it came from"
NO_KEY = "it has no key, and the topic is compacted"
NEWER = "its key has something newer in the table's topic"
TOO_LARGE = "it is larger than a record of the topic to which it goes may be"
UNCHECKED = "a replay cannot check the event again: with --force it is written as it was sent"


@dataclass
class Replayed:
    """What became of the chosen letters."""

    replayed: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """Reason -> number of letters."""
    overwrites: list[tuple[Letter, RecordId]] = field(default_factory=list)
    """With `force`: letters that were replayed although their key has a newer record."""

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


class Replay:
    """A replay of letters of one DLQ. A second replay of the same DLQ fences the first."""

    def __init__(self, cluster: Cluster, dlq: str, ways: Ways, *, force: bool = False, report: Report = silent) -> None:
        """`force`: replays also what has something newer, or cannot be checked again."""
        self._cluster = cluster
        self._dlq = dlq
        self._ways = ways
        self._force = force
        self._report = report
        self._settings: dict[str, Mapping[str, str] | str] = {}
        """Of each topic that a letter names; or why nothing goes back there."""
        self.outcome = Replayed()

    def run(self, selection: Selection, *, dry: bool = False) -> Replayed:
        """After a kill the same call continues: replayed letters have a tombstone and are not found again. `dry`: only
        finds out what it would do; a replay that is under way goes on."""
        if not is_there(self._cluster, self._dlq):
            return self.outcome
        if dry:
            for _ in self._found(selection):
                pass
        else:
            self._send_all(selection)
        return self.outcome

    def _send_all(self, selection: Selection) -> None:
        identity = f"enrich.dlq.{self._dlq}"
        given = self._cluster.connection
        batch = min(_BATCH_BYTES, int(str(given.get("batch.size", _BATCH_BYTES))))
        connection = {"message.max.bytes": LARGEST_MESSAGE, **given, "batch.size": batch}
        producer = WholeTransactions(connection, identity, deadline_s=self._cluster.deadline_s)
        with closing(producer):
            # Must come before anything is read: it settles the last transaction of a killed replay.
            producer.start()
            for ready in self._found(selection):
                if ready:
                    with producer.transaction():
                        for letter, way in ready:
                            self._send(producer, letter, way)
            producer.settle()

    def _found(self, selection: Selection) -> Iterator[Sequence[tuple[Letter, Way]]]:
        """The letters that can be replayed, some at a time. They count as replayed when the next are asked for."""
        for some in _some_at_a_time(letters(self._cluster, self._dlq, selection, self._report)):
            ready = list(self._ready(some))
            yield ready
            self.outcome.replayed += len(ready)
            self._report(f"{self.outcome.replayed:,} letters replayed")

    def _ready(self, some: Sequence[Letter]) -> Iterator[tuple[Letter, Way]]:
        found = [(letter, self._ways.of(letter)) for letter in some]
        newer = self._newer([one for one, way in found if isinstance(way, Way) and way.is_to_its_place])
        for letter, way in found:
            reason = way if isinstance(way, str) else self._reason_to_stay(letter, way, newer)
            if isinstance(way, str) or reason is not None:
                self.outcome.skip(reason or "")
                continue
            if letter.name in newer:
                self.outcome.overwrites.append((letter, newer[letter.name]))
            yield letter, way

    def _reason_to_stay(self, letter: Letter, way: Way, newer: Mapping[str, RecordId]) -> str | None:
        settings = self._settings_of(way.topic)
        if isinstance(settings, str):
            return settings
        compacted = is_compacted(settings)
        if letter.is_masked:
            return MASKED
        if letter.is_cut:
            return CUT
        if compacted and letter.key is None:
            return NO_KEY
        if compacted and not letter.value:
            return EMPTY
        if record_size(letter.key, letter.value, way.headers) > room_by(settings, self._cluster.connection):
            return TOO_LARGE
        if self._force:
            return None
        return NEWER if letter.name in newer else UNCHECKED if way.is_unchecked else None

    def _newer(self, some: Sequence[Letter]) -> dict[str, RecordId]:
        """The newer record by letter name, for letters of compacted topics."""
        found: dict[str, RecordId] = {}
        for topic in {letter.topic for letter in some if self._is_compacted(letter.topic)}:
            of = {
                Origin(letter.key, *letter.place[1:], letter.timestamp): letter
                for letter in some
                if letter.topic == topic and letter.key is not None and letter.place is not None
            }
            for origin, newer in newer_records(self._cluster, topic, of, self._report).items():
                found[of[origin].name] = newer
            # If two letters have the same key, the later one is the newer record of the earlier one.
            latest: dict[tuple[bytes, int, str], Origin] = {}
            for origin in sorted(of, key=lambda one: one.offset):
                same = origin.key, origin.partition, of[origin].topic_id
                if same in latest:
                    found.setdefault(of[latest[same]].name, RecordId(topic, origin.partition, origin.offset))
                latest[same] = origin
        return found

    def _is_compacted(self, topic: str) -> bool:
        settings = self._settings_of(topic)
        return not isinstance(settings, str) and is_compacted(settings)

    def _settings_of(self, topic: str) -> Mapping[str, str] | str:
        if topic not in self._settings:
            reason = why_missing(self._cluster, topic)
            with needs("DESCRIBE_CONFIGS", f"topic {topic}"):
                self._settings[topic] = self._cluster.topics.settings(topic) if reason is None else reason
        return self._settings[topic]

    def _send(self, producer: WholeTransactions, letter: Letter, way: Way) -> None:
        producer.produce_one(way.topic, letter.key, letter.value, headers=way.headers, partition=way.partition)
        producer.produce_one(self._dlq, letter.name.encode(), None, partition=letter.dlq_partition)


def _some_at_a_time(found: Iterable[Letter]) -> Iterator[Sequence[Letter]]:
    some, size = list[Letter](), 0
    for letter in found:
        some.append(letter)
        size += len(letter.value)
        if len(some) >= _AT_A_TIME or size >= _BYTES_AT_A_TIME:
            yield some
            some, size = [], 0
    if some:
        yield some


def purge(cluster: Cluster, dlq: str, places: Sequence[tuple[str, int]]) -> None:
    """Removes exactly these letters in one transaction. The brokers free their bytes at the next compaction. `places`:
    the name of each, and its partition of the DLQ."""
    identity = f"enrich.dlq.{dlq}"
    connection = sized_for([dlq], cluster.topics, cluster.connection)
    with whole_transaction(connection, identity, cluster.deadline_s) as producer:
        for name, partition in places:
            producer.produce_one(dlq, name.encode(), None, partition=partition)
