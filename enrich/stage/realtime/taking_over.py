"""How a driver takes the partitions of its stage over, so that no slot of an earlier run can commit anything more.

Whoever wrote a partition's note owns it: a slot, by its transactional id. The driver becomes the owner itself, which
fences the slot, and writes a note of the new run in a transaction of the same id. A slot that starts late, of an
earlier run, becomes the owner again. If it does so after that, it reads the note of the new run, and ends; if it comes
in between, the driver does it all once more.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import TopicPartition

from enrich.base.errors import Fenced, Retryable
from enrich.kafka import Connection, new_assigned_consumer
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.stage.progress.source_topics import Position
from enrich.stage.realtime.assignment import Partition, assigned, transactional_id
from enrich.stage.realtime.commits import Commits, commits_of, read_commits
from enrich.stage.realtime.notes import Note

_PATIENCE_S = 30.0
_AT_ONCE = 16
_AGAIN_S = 0.1


@dataclass(frozen=True)
class Run:
    """The slots of a driver, until it makes others."""

    id: str
    group: str
    slots: Sequence[Sequence[Partition]]
    """The partitions of each."""

    @property
    def partitions(self) -> list[Partition]:
        return [each for slot in self.slots for each in slot]


def take_over(
    connection: Connection,
    group: str,
    run_id: str,
    partitions: Mapping[str, Sequence[int]],
    slots: int,
    begins: Position,
    first: Callable[[Partition], int],
    commit: Callable[[Sequence[TopicPartition]], None],
) -> Run:
    """A run with at most so many slots. `begins`: where partitions begin, whatever is committed; others go on where
    the group is. `first`: where a partition begins of which the group has no offset. `commit`: commits in a transaction
    of the driver, who has fenced all other drivers."""
    count = max(1, min(slots, sum(map(len, partitions.values()))))
    run = Run(run_id, group, assigned(partitions, count))
    slot_of = {each: slot for slot, own in enumerate(run.slots) for each in own}
    owned: defaultdict[int, list[Partition]] = defaultdict(list)
    nobodys: list[TopicPartition] = []
    commits = read_commits(connection, group, run.partitions)
    for each in run.partitions:
        found = commits.get(each)
        if found is not None and found.note is not None:
            owned[found.note.slot].append(each)
            continue
        topic, number = each
        offset = begins.get(topic, {}).get(number)
        if offset is None:
            offset = first(each) if found is None else found.offset  # somebody has set it
        nobodys.append(TopicPartition(topic, number, offset, Note(run.id, slot_of[each]).to_text()))
    if nobodys:
        commit(nobodys)

    def move(slot: int) -> None:
        _move(connection, group, slot, owned[slot], lambda each: Note(run.id, slot_of[each]).to_text(), begins)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(move, sorted(owned)))
    return run


def end_slots(connection: Connection, group: str, commits: Commits, *, of: str | None = None) -> None:
    """Fences the slots that the commits name, and ends their open transactions, for which readers would wait. `of`:
    only those of this run."""
    notes = [each.note for each in commits.values() if each.note is not None]

    def end(slot: int) -> None:
        with closing(TransactionalProducer(connection, transactional_id(group, slot))) as producer:
            producer.start(_PATIENCE_S)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(end, sorted({note.slot for note in notes if of in (None, note.run)})))


def take_from_slots(connection: Connection, group: str, partitions: Sequence[Partition]) -> None:
    """For who reads them without slots, from the offsets that these have committed last. A slot of an earlier run that
    starts later finds no note of its run, and ends."""
    owned: defaultdict[int, list[Partition]] = defaultdict(list)
    for each, commit in read_commits(connection, group, partitions).items():
        if commit.note is not None:
            owned[commit.note.slot].append(each)

    def move(slot: int) -> None:
        _move(connection, group, slot, owned[slot], lambda _: "", {})

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(move, sorted(owned)))


def _move(
    connection: Connection,
    group: str,
    slot: int,
    partitions: Sequence[Partition],
    note_of: Callable[[Partition], str],
    begins: Position,
) -> None:
    """From the slot of an earlier run, with the offsets that it has committed last."""
    deadline = time.monotonic() + _PATIENCE_S
    with closing(new_assigned_consumer(connection, group)) as consumer:
        while True:
            try:
                with closing(TransactionalProducer(connection, transactional_id(group, slot))) as producer:
                    producer.start(_PATIENCE_S)
                    offsets = []
                    for each, commit in commits_of(consumer, group, partitions).items():
                        offset = begins.get(each[0], {}).get(each[1], commit.offset)
                        offsets.append(TopicPartition(*each, offset, note_of(each)))
                    with producer.transaction():
                        producer.send_offsets(offsets, consumer.consumer_group_metadata())
            except (Fenced, Retryable):
                # Fenced by a slot that started late: it goes on, as it does not know the new run yet.
                if time.monotonic() > deadline:
                    raise
                time.sleep(_AGAIN_S)
            else:
                return
