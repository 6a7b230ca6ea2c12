"""What slots note with their offsets, and which partitions they read."""

import math
import time
from collections import Counter
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from enrich.base.backoff import Backoff
from enrich.base.errors import ConfigError, Fenced, Retryable, Unreachable, WouldLoseData
from enrich.kafka import kafka_errors
from enrich.kafka.columnar import HEADERS, Came
from enrich.stage.measure.metrics import StageMetrics
from enrich.stage.realtime import slot, taking_over
from enrich.stage.realtime.assignment import assigned
from enrich.stage.realtime.commits import Commit
from enrich.stage.realtime.counted import Counted
from enrich.stage.realtime.counts import Counts, RecentLags
from enrich.stage.realtime.notes import Note
from enrich.stage.realtime.pieces import columns_of
from enrich.stage.realtime.progress import Mark
from enrich.stage.realtime.size import MOST, Size
from enrich.stage.realtime.slot import REST_S, _Session
from enrich.stage.run.slots import SlotFlow
from enrich.stage.steps.step import Operator
from enrich.stage.task.columns import OFFSET, TIMESTAMP
from enrich.stage.task.report import BatchReport
from enrich.stage.worker.answers import NotYet
from enrich.tally.lags import NO_LAG, Lag
from tests.support.clock import ManualClock
from tests.support.seed import random_source


def random_counts(source):
    statuses = [[source.randrange(10**9) for _ in range(7)] for _ in range(2)]
    report = BatchReport("a-host", [], {"users": 1.5, "devices": None}, 0.0, 0.0, 10**8)
    times = np.array([source.randrange(10**6) for _ in range(100)])
    return Counts(
        Counter(events=source.randrange(10**12), dropped=5, dead_letters=1),
        Counter({f"route-{n}": source.randrange(10**9) for n in range(5)}),
        statuses,
        1.25,
        0.5,
        report,
        RecentLags(7, Lag.of(times, times + 50, 10**6), Lag.of(times[:9], times[:9] + 20, 10**6)),
    )


# Of a first start on a topic that has the events of years.
_AGES = np.repeat((1.002 ** np.arange(1, 13_000)).astype(np.int64), 20)
LONG = Lag.of(10**12 - _AGES, np.full(len(_AGES), 10**12), 10**12 + 5)


def test_a_note_is_read_as_it_was_written():
    counts = random_counts(random_source("notes"))
    assert Note.of_text(Note("a-run", 3).to_text()) == Note("a-run", 3)
    assert Note.of_text(Note("a-run", 3, counts).to_text()) == Note("a-run", 3, counts)


@pytest.mark.parametrize(("routes", "kept"), [(5, True), (60, True), (2_000, False)])
def test_a_note_is_never_longer_than_brokers_take(routes, kept):
    counts = random_counts(random_source("long notes"))
    counts.routes = Counter({f"a-route-of-this-name-{n}": 10**9 for n in range(routes)})
    counts.lags = RecentLags(7, LONG, LONG)
    text = Note("a-run", 0, counts).to_text()
    assert len(text.encode()) <= 4_000
    found = Note.of_text(text)
    assert found is not None and found.counts is not None
    assert found.counts.numbers == counts.numbers, "how many events there were is always said"
    assert found.counts.lags.period == 7
    assert (found.counts.lags.now, found.counts.lags.before) == (None, None)
    assert (found.counts.routes == counts.routes) is kept


def test_a_record_may_have_any_time():
    times = np.array([-(2**63), -1, 0, 1_700_000_000_000_000_000, 2**63 - 1])
    nothing = pa.nulls(len(times), pa.binary())
    numbers = np.zeros(len(times), np.int32)
    odd = Came(["in"], numbers, numbers, np.arange(len(times)), times, nothing, nothing, pa.nulls(5, HEADERS))
    assert columns_of(odd)[TIMESTAMP].cast(pa.int64()).to_pylist()[1:3] == [-1_000, 0]


class TooMuch:
    """A step for which more than ten events are more than a column of Arrow holds. Those that are `waiting` wait."""

    needs, makes = (OFFSET,), MappingProxyType[str, pa.DataType]({})

    def __init__(self, waiting):
        self.waiting = waiting

    def begin(self, pin):
        assert pin is None
        return self.taken

    def taken(self, columns):
        offsets = columns[OFFSET].to_pylist()
        if self.waiting.intersection(offsets):
            raise NotYet
        if len(offsets) > 10 or 77 in offsets:
            raise pa.ArrowInvalid("offset overflow")
        return {}


class OneSession(_Session):
    """What comes is given, what it commits is kept: partition, offsets, and the offset behind."""

    def __init__(self, may_wait=False, waiting=()):
        self.step = TooMuch(set(waiting))
        self.paused: set[Any] = set()
        self.coming: list[Came] = []
        self.written: list[Any] = []
        self.transactions: list[int] = []
        plan = SimpleNamespace(
            operator=Operator.of([self.step], ()), leaving=SimpleNamespace(records=lambda _: []), may_wait=may_wait
        )
        self._spec = cast(Any, SimpleNamespace(plan=plan))
        self._consumer = cast(Any, SimpleNamespace(pause=self._pause, resume=self._resume))
        self._waiting, self._reached, self._size = {}, {}, Size()
        self._looked_at, self._committed_at = -math.inf, 0.0

    def _pause(self, partitions):
        self.paused.update((each.topic, each.partition) for each in partitions)

    def _resume(self, partitions):
        self.paused.difference_update((each.topic, each.partition) for each in partitions)

    def _take(self):
        self._looked_at, self._committed_at = -math.inf, time.monotonic() - REST_S
        return self.coming.pop(0) if self.coming else None

    def _commit(self, done):
        self.transactions.append(sum(len(each.came) for each in done))
        for each in done:
            ((_, partition), end), *more = each.came.ends().items()
            assert not more, "of one partition"
            self.written.append((partition, each.came.offset.tolist(), end))

    def offsets(self, partition):
        return [offset for number, offsets, _ in self.written if number == partition for offset in offsets]


def came(offsets, partition=0):
    numbers, nothing = np.zeros(len(offsets), np.int32), pa.nulls(len(offsets), pa.binary())
    headers = pa.nulls(len(offsets), HEADERS)
    return Came(["in"], numbers, numbers + partition, offsets, offsets, nothing, nothing, headers)


@pytest.mark.parametrize("may_wait", [False, True])
def test_what_becomes_too_much_is_written_in_parts(may_wait):
    session = OneSession(may_wait)
    session.coming = [came(np.arange(35)), came(np.array([76, 77, 78]))]
    assert session.turn()
    assert session.offsets(0) == list(range(35))
    assert all(end == offsets[-1] + 1 for _, offsets, end in session.written)
    with pytest.raises(pa.ArrowInvalid):
        session.turn()
    assert session.written[-1][1] == [76]


def test_what_becomes_too_much_after_it_has_waited_is_written_in_parts():
    session = OneSession(may_wait=True, waiting=[30, 37])
    session.coming = [came(np.arange(35)), came(np.arange(35, 40)), came(np.arange(12), partition=1)]
    while session.coming:
        session.turn()
    assert session.paused == {("in", 0)}
    assert (session.offsets(0), session.offsets(1)) == ([], list(range(12))), "others do not wait for it"
    session.step.waiting = {20, 37}
    session.turn()
    assert session.offsets(0) == []
    session.step.waiting = {37}
    session.turn()
    assert session.offsets(0) == list(range(35))
    assert session.paused == {("in", 0)}
    session.step.waiting = set()
    session.turn()
    assert session.offsets(0) == list(range(40)), "in their order"
    assert session.paused == set()


def test_a_part_that_has_to_wait_holds_up_those_behind_it():
    class Session(OneSession):
        def _commit(self, done):
            super()._commit(done)
            if len(self.written) == 1:
                self.step.waiting = {20}

    session = Session(may_wait=True)
    session.coming = [came(np.arange(35))]
    session.turn()
    assert session.offsets(0) == list(range(17))
    assert session.paused == {("in", 0)}
    session.step.waiting = set()
    session.turn()
    assert session.offsets(0) == list(range(35))
    assert session.paused == set()


def test_parts_of_a_batch_do_not_wait_again_for_what_the_whole_has_waited_for():
    begun = []

    class Waited:
        """As a look-up: it knows since when its questions are asked."""

        needs, makes = (OFFSET,), MappingProxyType[str, pa.DataType]({})

        def begin(self, pin):
            begun.append(pin)
            return lambda columns: {"seen": columns[OFFSET]}

    taking = Operator.of([Waited()], ()).taking({OFFSET: pa.array([5, 6, 7])})
    assert taking.taken()["seen"].to_pylist() == [5, 6, 7]
    assert taking.part(1, 3).taken()["seen"].to_pylist() == [6, 7]
    assert len(begun) == 1


class SlowBrokers:
    """They take a hundred records before a transaction's time is over. Without a consumer and a producer."""

    def __init__(self, count):
        self.count = count
        self.tries = 0
        self.open: list[int] = []
        self.committed: list[int] = []
        self.transactions: list[int] = []

    @contextmanager
    def transaction(self):
        self.open = []
        self.tries += 1
        assert self.tries < 1_000, "the same again and again"
        yield
        self.committed += self.open
        self.transactions.append(len(self.open))

    def errors_of(self, where):
        return kafka_errors(where)

    def write(self, records, deadline_s):
        assert deadline_s <= 25
        self.open += records
        if len(self.open) > 100:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def close(self):
        pass


class SlowSession(OneSession):
    _commit = _Session._commit

    def __init__(self, brokers, size, may_wait):
        super().__init__(may_wait)
        plan: Any = self._spec.plan
        plan.operator, plan.leaving = Operator.of([], ()), SimpleNamespace(records=lambda columns: [self.ids(columns)])
        self.brokers, self._size, self._id = brokers, size, "slot"
        self._patience = cast(Any, nullcontext())
        self._incoming = self._producer = self._outgoing = self._consumer = brokers
        self._counts = cast(Any, SimpleNamespace(add=lambda _: None))
        self._lags_at, self._ends = math.inf, {}
        self.next = len(brokers.committed)

    @staticmethod
    def ids(columns):
        return columns[OFFSET].to_pylist()

    def begin(self):
        pass

    def _take(self):
        first, self.next = self.next, min(self.next + self._size.most, self.brokers.count)
        offsets = np.arange(first, self.next)
        return replace(came(offsets), partition=offsets.astype(np.int32) % 3)

    def _send(self, ends):
        pass


@pytest.mark.parametrize("may_wait", [False, True])
def test_what_cannot_be_written_in_time_is_tried_with_fewer_events(monkeypatch, may_wait):
    brokers = SlowBrokers(5_000)
    monkeypatch.setattr(slot, "_Session", lambda _spec, _patience, size: SlowSession(brokers, size, may_wait))
    monkeypatch.setattr(slot, "Backoff", lambda *_: Backoff(1e-6, 1e-6))
    monkeypatch.setattr(slot, "REST_S", 0)
    with closing(cast(Any, slot.run_slot(cast(Any, SimpleNamespace(number=0))))) as turns:
        for _ in turns:
            if len(brokers.committed) == brokers.count:
                break
    assert sorted(brokers.committed) == list(range(brokers.count))
    assert max(brokers.transactions) <= 100


def test_what_has_waited_is_written_in_transactions_of_that_size():
    session = OneSession(may_wait=True, waiting=range(10))
    session._size.most = 10
    session.coming = [came(np.arange(10), partition) for partition in (0, 1, 2, 0, 1, 2)]
    while session.coming:
        session.turn()
    assert session.written == []
    session.step.waiting = set()
    session.turn()
    assert [session.offsets(partition) for partition in range(3)] == [list(range(10)) * 2] * 3
    assert session.transactions == [10] * 6


def test_a_transaction_has_more_events_again_once_they_are_written_quickly():
    clock = ManualClock()
    size = Size(lambda: clock.now_ms() / 1000)
    for _ in range(20):
        with pytest.raises(Unreachable), size.of(size.most):
            raise Unreachable("slow")
    assert size.most == 1
    with size.of(0):
        pass
    assert size.most == 1, "without events it says nothing"
    with size.of(1):
        clock.advance(11_000)
    assert size.most == 1, "twice as many might not be written in time"
    for _ in range(20):
        with size.of(size.most):
            clock.advance(1_000)
    assert size.most == MOST
    with pytest.raises(Fenced), size.of(size.most):
        raise Fenced("another")
    assert size.most == MOST


class DeniedSession:
    """The brokers refuse it twice, then something comes at each turn."""

    tries = 0

    def __init__(self, *_):
        type(self).tries += 1

    def begin(self):
        if self.tries < 3:
            raise ConfigError("Kafka: Broker: Unknown topic or partition")

    def turn(self):
        return True

    def close(self):
        pass


def test_what_brokers_refuse_a_slot_for_a_moment_does_not_end_it(monkeypatch):
    class Session(DeniedSession):
        tries = 0

    monkeypatch.setattr(slot, "_Session", Session)
    with closing(cast(Any, slot.run_slot(cast(Any, SimpleNamespace(number=0))))) as turns:
        for _ in turns:
            if Session.tries == 3:
                break


def test_what_brokers_refuse_a_slot_for_long_ends_it(monkeypatch):
    class Session(DeniedSession):
        tries = 0

    monkeypatch.setattr(slot, "_Session", Session)
    monkeypatch.setattr(slot, "_DOUBT_S", 0)
    with closing(cast(Any, slot.run_slot(cast(Any, SimpleNamespace(number=0))))) as turns, pytest.raises(ConfigError):
        for _ in turns:
            assert Session.tries < 3


def test_what_a_transaction_fails_for_is_told_if_it_is_a_missing_right():
    def failed(code):
        error = Retryable("Kafka: Broker: Topic authorization failed", where="transactional.id g.slot-0")
        error.__cause__ = KafkaException(KafkaError(code))
        return error

    refusal = slot._refusal_in(failed(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert refusal is not None and refusal.where == "transactional.id g.slot-0"
    assert slot._refusal_in(failed(KafkaError._TIMED_OUT)) is None
    assert slot._refusal_in(Retryable("the transaction has failed")) is None


_COUNTS = '{"n":{},"r":{},"s":[],"t":[0,0],"w":null,"p":0,"l":"AA==","b":null}'
STRANGE = [None, "", "some words", "[]", "null", "5", '{"run": "a"}', '{"run": "a", "slot": null}', '{"topic": "a"}']


@pytest.mark.parametrize("text", STRANGE)
def test_what_somebody_else_has_written_is_no_note(text):
    assert Note.of_text(text) is None


# What slots counted was once said without "p" and "b".
_OLDER = '{"n":{"events":5},"r":{},"s":[],"t":[0.1,0.0],"w":null,"l":"AAAAAAAAAAAA"}'


@pytest.mark.parametrize("counts", ['{"n":1}', "[]", _COUNTS, _OLDER])
def test_whose_a_partition_is_is_known_although_another_release_counts_otherwise(counts):
    assert Note.of_text(f'{{"run":"a","slot":1,"counts":{counts}}}') == Note("a", 1)


def test_what_was_counted_since_is_the_difference():
    source = random_source("since")
    earlier, lag = random_counts(source), Lag.of(np.array([5]), np.array([9]), 20)
    now = Counts(
        earlier.numbers + Counter(events=3),
        earlier.routes + Counter({"route-1": 2}),
        [[each + 1 for each in statuses] for statuses in earlier.statuses],
        earlier.took_s + 1,
        earlier.waited_s,
        earlier.newest,
        earlier.lags + lag,
    )
    new = now.since(earlier)
    assert new.numbers == Counter(events=3)
    assert new.routes == Counter({"route-1": 2})
    assert new.statuses == [[1] * 7] * 2
    assert new.lags.now == lag
    assert now.since(Counts()).statuses == now.statuses
    assert new.report is not None and new.report.took_s == pytest.approx(1)


def test_each_slot_has_as_many_partitions_of_each_topic_as_the_others_give_or_take_one():
    slots = assigned({"a": [0, 1, 2], "b": [0, 1, 2, 3, 4]}, 3)
    assert sorted(each for slot in slots for each in slot) == [
        *(("a", number) for number in range(3)),
        *(("b", number) for number in range(5)),
    ]
    assert {len(slot) for slot in slots} <= {2, 3}
    assert assigned({"a": [0]}, 1) == [[("a", 0)]]


def test_a_group_that_has_lost_offsets_is_noticed():
    mark = Mark().begun({"in": [0, 1]})
    mark.require_in([("in", 0), ("in", 1), ("new", 0)], "a-group", "enrich")
    with pytest.raises(WouldLoseData, match="a-group has no offsets any more of 1 of 2") as raised:
        mark.require_in([("in", 0)], "a-group", "enrich")
    assert raised.value.where == "topic in"


def test_lags_since_are_complete_across_a_period_and_begin_again_after_one_without_room():
    def lag(ms):
        return Lag.of(np.array([0]), np.array([ms]), ms + 5)

    seen = RecentLags(3) + lag(1)
    same = seen + lag(2)
    assert same.since(seen) == lag(2)
    following = (same + lag(3)).next_period() + lag(4)
    assert following.since(same) == lag(3) + lag(4)
    assert following.next_period().next_period().since(same) == NO_LAG, "too late for what was between"
    no_room = RecentLags(3, None, None)
    assert no_room.since(seen) == NO_LAG
    assert (no_room + lag(5)).since(no_room) == NO_LAG
    after = no_room.next_period() + lag(6)
    assert after.since(no_room) == lag(6)


def test_metrics_go_on_after_a_note_that_had_no_room_for_lags():
    metrics = StageMetrics("plays", "enrich", [], {}, [])
    counted, counts = Counted(metrics), Counts()
    short = Lag.of(np.array([10**12]), np.array([10**12 + 1]), 10**12 + 5)
    for lag in (short, LONG, short):
        counts.numbers.update(events=lag.came.count)
        counts.lags = counts.lags.next_period() + lag
        note = Note.of_text(Note("a-run", 0, counts).to_text())
        assert note is not None and note.counts is not None
        assert (note.counts.lags.now is None) is (lag is LONG)
        counted.slots({0: note.counts})
    assert counted.totals()["events"] == LONG.came.count + 2
    assert metrics.lags()["lag_in_s"]["p99"] == pytest.approx(0.001)


@pytest.mark.parametrize(
    "found",
    [
        {"a": ("1", [0]), "b": ConfigError("Kafka: Broker: Unknown topic or partition"), "c": ("3", [0])},
        {"a": ("1", [0]), "b": ("2", [0]), "c": ("3", [0])},
    ],
)
def test_when_the_source_grows_no_partition_is_left_out_that_a_broker_does_not_name_now(found):
    flow: Any = SlotFlow.__new__(SlotFlow)
    begun: list[Any] = []
    source = SimpleNamespace(ids=dict.fromkeys("abc"), keep_with=lambda _: None)
    flow.source, flow._partitions, flow._watch = None, {"a": [0], "b": [0, 1]}, SimpleNamespace(known=source)
    topics = SimpleNamespace(identities=lambda _: found)
    flow._start, flow._begin_anew = SimpleNamespace(topics=topics, checkpoint=None), lambda: begun.append(1)
    flow._look_for_more()
    assert begun == []
    topics.identities = lambda _: {**found, "b": ("2", [0, 1])}
    flow._look_for_more()
    assert begun == [1]
    assert flow._partitions == {"a": [0], "b": [0, 1], "c": [0]}


def test_what_has_no_room_in_some_notes_is_not_counted_twice():
    """A note is longer now than a moment later: ages and memory are written with more or fewer digits."""
    metrics = StageMetrics("p", "s", [], routes=["a-route-0"])
    counted, counts = Counted(metrics), random_counts(random_source("notes of about 4,000 bytes"))
    counts.routes = Counter({f"a-route-{n}": 1_000 for n in range(100)})
    short = replace(counts, routes=counts.routes + Counter({"x" * 4_000: 1}))
    for each, kept in [(counts, True), (short, False), (counts, True), (short, False), (counts, True)]:
        note = Note.of_text(Note("r", 0, each).to_text())
        assert note is not None and note.counts is not None
        assert bool(note.counts.routes) is kept
        each.numbers["events"] += 1
        counted.slots({0: note.counts})
    assert 'routed_events_total{pipeline="p",route="a-route-0",stage="s"} 1000.0' in metrics.exposition().decode()


def test_a_slot_that_goes_on_from_a_note_without_room_takes_nothing_back():
    counts = random_counts(random_source("a slot that begins again"))
    again = replace(counts, routes=Counter(), statuses=[[1] * 7] * 2, numbers=counts.numbers + Counter(events=1))
    new = again.since(counts)
    assert (new.routes, new.statuses) == (Counter(), [[0] * 7] * 2)


class Committing(OneSession):
    """It keeps which offsets each transaction commits."""

    _commit = _Session._commit

    def __init__(self, ends, **more):
        super().__init__(**more)
        self.committed = []
        self._id, self._lags_at, self._ends = "slot", math.inf, dict(ends)
        self._patience = cast(Any, nullcontext())
        self._producer = cast(Any, SimpleNamespace(transaction=nullcontext, errors_of=lambda _: nullcontext()))
        self._outgoing, self._counts = cast(Any, None), cast(Any, SimpleNamespace(add=lambda _: None))

    def _send(self, ends):
        self.committed.append(ends)


def test_beyond_events_that_wait_nothing_is_committed_although_the_end_of_their_partition_was_reached():
    """Whoever goes on after a kill would leave them out."""
    first, second = ("in", 0), ("in", 1)
    session = Committing({first: 0, second: 100}, may_wait=True, waiting=[100])
    session._size.most = 4  # the first partition's events are committed before the second one is looked at
    numbers = np.array([0, 0, 0, 0, 1], np.int32)
    both = replace(came(np.array([0, 1, 2, 3, 100])), partition=numbers, reached={second: 102})
    session.coming = [both, came(np.array([4]))]
    session.turn()
    session.turn()
    assert session.committed == [{first: 4}, {first: 5}]
    session.step.waiting = set()
    session.turn()
    assert session.committed[2:] == [{second: 102}], "the marker of a transaction stands behind the event"


def test_the_end_that_was_reached_before_does_not_take_back_what_came_since():
    session = Committing({("in", 0): 5})
    session.coming = [replace(came(np.array([], np.int64)), reached={("in", 0): 6}), came(np.arange(6, 10))]
    session.turn()
    session.turn()
    assert session.committed == [{("in", 0): 10}]


PLACE = ("in", 0)


@pytest.fixture
def older(monkeypatch):
    """A slot that commits a last time before it is shut out. Has what it has committed."""
    offsets = [5]

    class Producer:
        def __init__(self, *_):
            self.sent = []

        def start(self, _):
            offsets.append(9)

        def transaction(self):
            return nullcontext()

        def send_offsets(self, places, _):
            moved.extend(place.offset for place in places)

        def close(self):
            pass

    moved: list[int] = []
    consumer = SimpleNamespace(consumer_group_metadata=lambda: None, close=lambda: None)
    for module in (slot, taking_over):
        monkeypatch.setattr(module, "commits_of", lambda *_: {PLACE: Commit(offsets[-1], Note("run", 0))})
        monkeypatch.setattr(module, "TransactionalProducer", Producer)
        monkeypatch.setattr(module, "new_assigned_consumer", lambda *_, **__: consumer)
    return SimpleNamespace(producer=Producer(), consumer=consumer, moved=moved)


def test_a_slot_begins_behind_the_last_commit_of_the_one_that_it_shuts_out(older):
    begun: list[int] = []
    session = OneSession()
    session._spec = cast(Any, SimpleNamespace(group="g", run="run", number=0, partitions=[PLACE]))
    session._producer, session._consumer = older.producer, older.consumer
    session._incoming = cast(Any, SimpleNamespace(begin=lambda places: begun.extend(each.offset for each in places)))
    session.begin()
    assert begun == [9]


def test_a_partition_is_moved_behind_the_last_commit_of_the_slot_that_is_shut_out(older):
    taking_over._move({}, "g", 0, [PLACE], lambda _: "a note", {})
    assert older.moved == [9]
