"""Moves a table to another topic: records and progress in one transaction, so that it resumes after any kill."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, Message

from enrich.admin.cluster import Cluster
from enrich.admin.moves.split_keys import Found, find_split_keys
from enrich.admin.moves.transcoding import Transcoder
from enrich.admin.reading import Report, batches_of, silent
from enrich.base.errors import BadRecord, Retryable, WouldLoseData
from enrich.kafka import new_group_consumer, read_to_end
from enrich.kafka.groups import committed
from enrich.kafka.records import headers_of, key_of, value_of
from enrich.kafka.writing.room import sized_for
from enrich.kafka.writing.whole_transactions import WholeTransactions

_LOOK_EVERY_S = 0.5
_READS = {"enable.partition.eof": True, "auto.offset.reset": "error", "fetch.wait.max.ms": 100}


@dataclass(frozen=True)
class Route:
    """From one topic to another on the same cluster."""

    source: str
    target: str
    transcode: Transcoder

    @property
    def identity(self) -> str:
        """The transactional id, and the group that keeps the progress. A new run with this id fences an older one."""
        return f"enrich.move.{self.source}.{self.target}"


@dataclass
class Moved:
    """What one run did."""

    records: int = 0
    without_key: int = 0
    split_keys: int = 0
    resumed: bool = False


class Move:
    """One run of a move. `catch_up` may be called as often as wanted."""

    def __init__(self, cluster: Cluster, route: Route, report: Report = silent) -> None:
        """Raises WouldLoseData if the target has records that this move did not write."""
        self._cluster = cluster
        self._route = route
        self._report = report
        self.moved = Moved()
        connection = sized_for([route.target], cluster.topics, cluster.connection)
        self._producer = WholeTransactions(connection, route.identity, deadline_s=cluster.deadline_s)
        self._consumer: Consumer | None = None
        try:
            # Must come first: it settles the last transaction of a killed run, before its progress is read.
            self._producer.start()
            self._consumer = new_group_consumer(cluster.connection, route.identity, **_READS)
            self._ids = f"{cluster.topics.topic_id(route.source)}/{cluster.topics.topic_id(route.target)}"
            self._positions = self._progress()
            self._found: Found = find_split_keys(cluster, route.source, self._positions, report)
            self.moved.split_keys = len(self._found.split)
            self._restore_split_keys()
        except BaseException:
            self.close()
            raise

    def catch_up(self) -> int:
        """Copies everything that is in the source now. Returns the number of records."""
        source, before = self._route.source, self.moved.records
        ends = self._cluster.topics.end_offsets(source)
        if len(ends) != self._found.partitions:
            raise Retryable(
                "partitions were added to the topic during the move", where=f"topic {source}", next_step="run it again"
            )
        starts = self._cluster.topics.start_offsets(source)
        positions = {partition: max(start, self._positions.get(partition, 0)) for partition, start in starts.items()}
        assert self._consumer is not None  # noqa: S101 - made with the move
        for batch in read_to_end(self._consumer, source, positions, ends, stalled_s=self._cluster.deadline_s):
            for message in batch:
                positions[message.partition() or 0] = (message.offset() or 0) + 1
            self._write(batch, positions)
            self._report(f"{self.moved.records:,} records moved")
        if self._positions != ends:
            self._write([], ends)
        return self.moved.records - before

    def wait_for_quiet(self, quiet_s: float, wait_s: float, clock: Callable[[], float] = time.monotonic) -> bool:
        """Copies until nobody has written to the source for `quiet_s`. False if that did not happen in `wait_s`."""
        end = clock() + wait_s
        last = clock()
        written = self._cluster.topics.written_offsets(self._route.source)
        while clock() < end:
            self.catch_up()
            now = self._cluster.topics.written_offsets(self._route.source)
            if now != written:
                written, last = now, clock()
            elif clock() - last >= quiet_s:
                self.catch_up()
                return True
            self._report(f"waiting for {quiet_s:g} s without a writer")
            time.sleep(_LOOK_EVERY_S)
        return False

    def follow(self) -> None:
        """Copies until the process is interrupted."""
        while True:
            self.catch_up()
            time.sleep(_LOOK_EVERY_S)

    def close(self) -> None:
        self._producer.close()
        if self._consumer is not None:
            self._consumer.close()

    def _progress(self) -> dict[int, int]:
        assert self._consumer is not None  # noqa: S101 - made with the move
        source, target = self._route.source, self._route.target
        partitions = self._cluster.topics.partitions(source)
        known = committed(self._consumer, self._route.identity, source, partitions, deadline_s=self._cluster.deadline_s)
        positions = {one.partition: one.offset for one in known}
        if any(one.metadata != self._ids for one in known):
            raise WouldLoseData(
                "one of the topics was recreated since the move began",
                where=f"topics {source}, {target}",
                next_step="name another target",
            )
        if not positions and any(batches_of(self._cluster, target)):
            raise WouldLoseData(
                "the target has records that this move did not write",
                where=f"topic {target}",
                next_step="name a topic that is empty or does not exist yet",
            )
        self.moved.resumed = bool(positions)
        return positions

    def _restore_split_keys(self) -> None:
        """Writes the rows of split keys again: since the last run a key may have appeared in a second partition."""
        rows = list(self._found.split.rows())
        if rows:
            with self._producer.transaction():
                self._produce(rows)

    def _write(self, batch: Sequence[Message], positions: dict[int, int]) -> None:
        chosen = []
        for message in batch:
            key = message.key()
            if key is None:
                self.moved.without_key += 1
            elif key in self._found.split:
                newest = self._found.split.take(message)
                if newest is not None:
                    chosen.append(newest)
            else:
                chosen.append(message)
        assert self._consumer is not None  # noqa: S101 - made with the move
        with self._producer.transaction():
            self._produce(chosen)
            self._producer.progress(self._route.source, positions, self._consumer, self._ids)
        self._positions = dict(positions)
        self.moved.records += len(batch)

    def _produce(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        keys = [key_of(message) or b"" for message in messages]
        values = self._values(messages)
        for message, key, value in zip(messages, keys, values, strict=True):
            at = message.timestamp()[1]
            self._producer.produce_one(self._route.target, key, value, headers=headers_of(message), time_ms=at)

    def _values(self, messages: Sequence[Message]) -> list[bytes | None]:
        try:
            return self._route.transcode([value_of(message) for message in messages])
        except BadRecord as error:
            message = messages[int(error.where or 0)]
            raise WouldLoseData(
                error.what,
                where=f"topic {self._route.source}, partition {message.partition()}, offset {message.offset()}, "
                f"key {(key_of(message) or b'').decode('utf-8', 'backslashreplace')}",
                next_step="write a good row for this key, or delete it, and run it again",
            ) from error
