"""Whatever happens to topic, agent, host and clock: an answer is the truth, or says that it may not be.

The topic is a model that keeps every version it was ever given, with a cleaner as eager as Kafka allows. The keeper,
what it knows of completeness and floors, the load, the folding and the store are the real ones.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from enrich.base.errors import EnrichError, Unreachable
from enrich.host.claims.notes import TOPIC_ID
from enrich.host.claims.watch import Answer
from enrich.host.follow.topic_keeper import TopicKeeper
from enrich.host.ipc.header import TableState
from enrich.host.load.loading import Listener, Loaded, Order, Progress, load_from
from enrich.host.tables import TopicTable
from enrich.kafka import TopicSettings
from stores.freshness import CLOCK_STEP_MS, is_older
from stores.rocks import RocksStore
from stores.rocks.read.view import RocksTable
from stores.snapshots import Snapshot
from stores.table import TIMESTAMP, Status
from tests.property.stores.model import Model
from tests.support.host.agents import plans_table
from tests.support.kafka.model_topic import (
    CLOCKS_ARE_CLOSE_MS,
    AtOnce,
    Made,
    ModelSource,
    ModelTailer,
    ModelTopic,
    World,
    answer_of,
)
from tests.support.seed import SEED, rounds

LIVES = rounds(40, 10_000)
AT_ONCE = 20
"""Lives of one test, so that a failing one is found again by its number."""

KEYS = [b"a", b"b", b"c", b"d"]
BOUND_MS = 5_000
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


class Life:
    def __init__(self, folder: Path, seed: str) -> None:
        random.seed(seed)  # pauses before another try
        self.chance = random.Random(seed)
        pick = self.chance.choice
        self.may_set_clock = pick([True, False, False])
        self.world = World(wrong_by_ms=self.chance.randint(-1, 1) * CLOCKS_ARE_CLOSE_MS)
        settings = TopicSettings(
            frozenset({"compact"}),
            delete_retention_ms=pick([10 * SECOND, MINUTE, HOUR]),
            min_compaction_lag_ms=pick([0, 0, 10 * SECOND, 90 * SECOND, 10 * MINUTE]),
            segment_ms=SECOND,
        )
        self.topic = ModelTopic(self.world, settings, self.chance, partitions=pick([1, 1, 2]))
        self.table: TopicTable = plans_table(ModelTopic.name, history_ms=pick([MINUTE, HOUR, 24 * HOUR]))
        self.folder = folder
        self.is_calm = False
        self.without_brokers = 0
        """Turns of the loop."""
        self.asked = dict.fromkeys(("latest", "as_of", "pin"), 0)
        self.told = dict.fromkeys(Status, 0)
        self.store, self.tailer, self.keeper = self._start()

    def live(self) -> None:
        for _ in range(self.chance.randint(5, 25)):
            self._something_happens()
            self._turn()
        # In the end the agent gets there.
        self.is_calm = True
        for _ in range(100):
            self.world.now_ms += 2 * SECOND  # it may wait before it tries again
            self._turn()
            state = self.keeper.state()
            if state.ready and not is_older(state.complete_through, 0, self.world.clocks.wall.now_ms()):
                break
        else:
            raise AssertionError(state)
        self.store.close()

    # What happens.

    def _something_happens(self) -> None:
        what = self.chance.choices(
            [self._meanwhile, self._restart, self._absence, self._set_clock, self._make_again, self._add_partition],
            [20, 2, 4, 2 * self.may_set_clock, 0.5, 0.5],
        )[0]
        what()

    def _meanwhile(self) -> None:
        """The world goes on: a little, or for long."""
        for _ in range(self.chance.choice([0, 1, 1, 3])):
            for _ in range(self.chance.choice([0, 1, 2, 5])):
                self._write()
            self.world.now_ms += self.chance.choice([10, 50, 200, 200, SECOND, 4 * SECOND, 7 * SECOND])
            if self.chance.random() < 0.3:
                self.topic.clean()

    def _absence(self) -> None:
        """Of the agent, of the brokers, or because the loop stands still."""
        restarts = self.chance.random() < 0.5
        if restarts:
            self.store.close()
        for _ in range(self.chance.choice([1, 3, 6])):
            self._meanwhile()
            self.world.now_ms += self.chance.choice([SECOND, 20 * SECOND, 2 * MINUTE, 20 * MINUTE, 2 * HOUR])
            self.topic.clean()
        if restarts:
            if self.may_set_clock and self.chance.random() < 0.5:
                self._set_clock()
            self.store, self.tailer, self.keeper = self._start()

    def _restart(self) -> None:
        self.store.close()
        self._meanwhile()
        self.store, self.tailer, self.keeper = self._start()

    def _set_clock(self) -> None:
        self.world.wrong_by_ms += self.chance.choice([-1, -1, 1]) * self.chance.choice([3 * SECOND, MINUTE, HOUR])
        self.without_brokers = self.chance.choice([0, 4, 8])

    def _make_again(self) -> None:
        self.topic.make(partitions=self.chance.choice([1, 2]))

    def _add_partition(self) -> None:
        self.topic.add_partition()

    def _write(self) -> None:
        value = None if self.chance.random() < 0.3 else b'{"plan":"%d"}' % len(self.topic.now.written)
        self.topic.write(self.chance.choice(KEYS), value)

    # The agent.

    def _start(self) -> tuple[RocksStore, ModelTailer, TopicKeeper]:
        clocks = self.world.clocks
        store = RocksStore(self.folder, {"users": self.table.spec}, clocks.wall)
        tailer = ModelTailer(self.topic)
        keeper = TopicKeeper(self.table, store, tailer, self._load, AtOnce(), AtOnce(), clocks)  # type: ignore[arg-type]
        return store, tailer, keeper

    def _load(
        self, table: TopicTable, answer: Answer, tell: Callable[[Progress], None], chosen: Snapshot | None
    ) -> Loaded | None:
        is_slow = not self.is_calm and self.chance.random() < 0.3

        def meanwhile() -> None:
            if is_slow and self.chance.random() < 0.5:
                self._meanwhile()
                if self.chance.random() < 0.2:
                    self.world.now_ms += self.chance.choice([20 * SECOND, 2 * MINUTE, 2 * HOUR])
                    self.topic.clean()

        listener = Listener(tell, lambda _: None, lambda: False)
        order = Order(table, answer, {}, chosen)
        return load_from(ModelSource(self.topic, meanwhile), self.store, order, listener, self.world.clocks)

    def _turn(self) -> None:
        """As `Agent.step` does it, with the world going on in between."""
        calm = self.is_calm
        pause: Callable[[], None] = (lambda: None) if calm or self.chance.random() < 0.6 else self._meanwhile
        for _ in range(1 if calm else self.chance.choice([1, 2, 4])):
            self.without_brokers = 0 if calm else max(0, self.without_brokers - 1)
            is_away = self.without_brokers > 0
            if is_away or (not calm and self.chance.random() < 0.1):
                self.keeper.hear(Unreachable("the brokers are away"))
            elif calm or self.chance.random() < 0.9:
                self.keeper.hear(answer_of(self.topic, pause))
            try:
                self.keeper.step()
                tailed = None if is_away else self.tailer.poll(100 if calm else self.chance.choice([1, 3, 100]))
                pause()
                update = self.keeper.update(tailed)
                if update is not None:
                    self.store.publish({"users": update})
            except EnrichError as error:
                self.keeper.failed(error)
            if self.chance.random() < 0.1:
                self.store.remove_expired()
            state = self.keeper.state()
            pause()
            if self.chance.random() < 0.7:
                # Its header is read a little later.
                self._check(state if self.chance.random() < 0.5 else self.keeper.state())

    # What it says.

    def _check(self, state: TableState) -> None:
        table = self.store.tables["users"]
        made = next((made for made in self.topic.all if made.topic_id == table.notes.get(TOPIC_ID)), None)
        if made is None:
            return
        view = RocksTable(self.table.spec, table, lambda: self.store._database)
        if made is self.topic.now:
            if state.ready:
                self._check_latest(view, state, made)
            self._check_past(view, state, made)

    def _check_latest(self, view: RocksTable, state: TableState, made: Made) -> None:
        now, shown = self.world.now_ms, self.world.clocks.wall.now_ms()
        through = state.complete_through
        assert through is not None
        if not is_older(through, BOUND_MS, shown):
            since = now - BOUND_MS
        elif through <= shown:
            since = now - (shown - through)
        else:
            return
        self.asked["latest"] += 1
        found = view.lookup(pa.array(KEYS), ["plan"])
        for key, answer in zip(KEYS, self._answers(found), strict=True):
            allowed = set(_valid_since(made, key, since - CLOCK_STEP_MS))
            assert answer in allowed, (key, answer, allowed, state)

    def _check_past(self, view: RocksTable, state: TableState, made: Made) -> None:
        model = Model()
        model.add(made.written)
        if self.may_set_clock and self.topic.settings.min_compaction_lag_ms:
            return  # what the lag proves is reckoned by the clock
        if self.chance.random() < 0.5:
            at_end = self.chance.random() < 0.3
            pin = {
                p: position if at_end else self.chance.randint(0, position) for p, position in view.positions.items()
            }
            self._compare(view, model, None, pin)
            return
        through = state.complete_through
        if through is None or self.may_set_clock or not state.ready:
            return  # times in the topic are the brokers': with a clock that is wrong by more they cannot be compared
        known = through - self.world.wrong_by_ms - 1  # what came within the same millisecond may have come after
        written = self.chance.choice([version.timestamp for version in made.written[-8:]] or [known])
        time = self.chance.choice([known, written, written - 1])
        if time <= known:
            self._compare(view, model, time, None)

    def _compare(self, view: RocksTable, model: Model, time: int | None, pin: dict[int, int] | None) -> None:
        self.asked["pin" if time is None else "as_of"] += 1
        times = None if time is None else pa.array([time] * len(KEYS), TIMESTAMP)
        found = view.lookup(pa.array(KEYS), ["plan"], as_of=times, pin=pin)
        for key, answer, status in zip(KEYS, self._answers(found), found.status.to_pylist(), strict=True):
            self.told[Status(status)] += 1
            if status != Status.EXPIRED:
                expected: Any = model.find(key.decode(), time, pin)
                truth = expected[1:] if expected[0] is Status.HIT else None
                assert answer == truth, (key, answer, truth, time, pin, view.positions, view.floors)

    @staticmethod
    def _answers(found: Any) -> Iterator[tuple[int, int] | None]:
        places = zip(found.partition.to_pylist(), found.offset.to_pylist(), strict=True)
        for status, place in zip(found.status.to_pylist(), places, strict=True):
            yield place if status == Status.HIT else None


def _valid_since(made: Made, key: bytes, since: int) -> Iterator[tuple[int, int] | None]:
    """What the key was at some moment since then: places of versions, None where there was no row."""
    versions = [version for version in made.written if version.key == key]
    before = [version for version in versions if version.timestamp <= since]
    for version in before[-1:] + versions[len(before) :]:
        yield None if version.value is None else (version.partition, version.offset)
    if not before:
        yield None


@pytest.mark.parametrize("first", range(0, LIVES, AT_ONCE))
def test_every_answer_is_the_truth_or_says_that_it_may_not_be(first, tmp_path):
    told = dict.fromkeys(Status, 0)
    for number in range(first, first + AT_ONCE):
        life = Life(tmp_path / str(number), f"{SEED}/claims/{number}")
        try:
            life.live()
        except BaseException as error:
            error.add_note(f"in life {number} of seed {SEED}")
            raise
        for status, count in life.told.items():
            told[status] += count
    # Not all of it is refused.
    assert told[Status.HIT] > told[Status.EXPIRED] / 20
