"""Verdicts beside a plain model of a chain: what is lost is named, and nothing else ever is."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from _pytest.monkeypatch import MonkeyPatch
from hypothesis import example, given
from hypothesis import strategies as st
from pyroaring import BitMap64

from enrich.tally import Lags, Node, NodeKind, Origins, Report, Tally
from enrich.tally.origins import Place, Read
from enrich.verdict import MinuteVerdict, State, Up, decoded, encoded
from enrich.verdict.minute import HopVerdict, origins_of
from enrich.verdict.ways import Hop, Way
from observe_service.verdicts import observation
from observe_service.verdicts.lots import Lot, LotKey, Lots
from observe_service.verdicts.observation import KEPT_MINUTES, Observation
from observe_service.verdicts.standing import Sla

ENTRY, STAGE = Node("p", NodeKind.ingest, "plays"), Node("p", NodeKind.stage, "prepare")
EXPEL = Node("p", NodeKind.expel, "acme")
WAY = Way((Hop(ENTRY), Hop(STAGE, "acme"), Hop(EXPEL)), "plays.raw")
RAW, OUT = "plays.raw", "plays.acme"
MINUTE, SETTLE_MS = 100, 60_000
SAID_MS = MINUTE * 60_000 + 30_000
DUE_MS = (MINUTE + 1) * 60_000 + SETTLE_MS
SETS = ("came", "went", "dropped", "dead", "waiting")
FATES = ("went", "dead", "waiting", "lost", "lost later", "elsewhere", "dropped")


def of(offsets: Iterable[int]) -> Origins:
    return Origins.of_offsets(RAW, 0, sorted(offsets)) if (offsets := list(offsets)) else Origins()


@dataclass
class Chain:
    """Events are offsets of one partition. Each has a fate; those that a node loses it says nothing of."""

    fates: Sequence[str]
    reports: list[Report] = field(default_factory=list)

    def having(self, *fates: str) -> list[int]:
        return [offset for offset, fate in enumerate(self.fates) if fate in fates]

    def said(self) -> list[Report]:
        everything = of(range(len(self.fates)))
        self.say(ENTRY, Tally(minute=MINUTE, came=everything, went=everything))
        in_stage = self.having("went", "dead", "waiting", "lost later", "elsewhere", "dropped")
        taken = self.having("went", "dead", "waiting", "lost later")
        dropped, both = of(self.having("dropped")), of([*taken, *self.having("elsewhere")])
        here = Tally(minute=MINUTE, came=of(in_stage), went=both, dropped=dropped)
        self.say(STAGE, here, reads=[Read(RAW, 0, 0, len(self.fates))])
        self.say(STAGE, Tally("acme", MINUTE, went=of(taken)))
        out = self.having("went", "dead", "waiting")
        dead, waiting = of(self.having("dead")), of(self.having("waiting"))
        gone = Tally(came=of(out), went=of(self.having("went")), dead=dead, waiting=waiting)
        self.say(EXPEL, gone, reads=[Read(OUT, 0, 0, len(taken))])
        return self.reports

    def say(self, node: Node, *tallies: Tally, reads: Iterable[Read] = ()) -> None:
        self.reports.append(Report(node, node.name, len(self.reports), SAID_MS, tallies, tuple(reads)))

    def ends(self) -> dict[tuple[str, int], int]:
        taken = self.having("went", "dead", "waiting", "lost later")
        return {(RAW, 0): len(self.fates), (OUT, 0): len(taken)}


TOPICS: dict[Node | None, list[str]] = {STAGE: [RAW], EXPEL: [OUT]}
ALIVE = Report(ENTRY, "alive", 1, 0)


class Watched:
    """An observation with what it has written, as the topic would keep it."""

    def __init__(self) -> None:
        self.observation = Observation([WAY], SETTLE_MS, Sla(1_000))
        self.observation.begin(MINUTE)
        self.written: dict[int, MinuteVerdict] = {}

    def take(self, reports: Iterable[Report], at_ms: int = SAID_MS) -> None:
        for report in reports:
            self.observation.take(report, at_ms)

    def settle(self, chain: Chain, at_ms: int = DUE_MS) -> MinuteVerdict:
        """As time goes on after the minute is due, with nothing new but signs of life."""
        self.observation.take(ALIVE, at_ms - 1_000)
        for second in range(1, 5):
            self.observation.look(at_ms + second * 1_000, chain.ends(), TOPICS)
            self.tick(at_ms + second * 1_000)
        return self.written[MINUTE]

    def tick(self, at_ms: int) -> None:
        for verdict in self.observation.tick(at_ms, at_ms):
            self.written[verdict.minute] = decoded(encoded(verdict))
            assert encoded(self.written[verdict.minute]) == encoded(verdict)

    def again(self, at_ms: int) -> "Watched":
        """Another observer, that goes on where this one was."""
        other = Watched()
        other.written = {**self.written}
        checkpoint = self.observation.checkpoint(at_ms)
        for verdict in self.written.values():
            other.observation.restore(verdict)
        other.observation.resume(checkpoint, MINUTE - 100)
        return other


def lost(verdict: MinuteVerdict) -> Origins:
    return origins_of(verdict.named("lost")[0])


fates = st.lists(st.sampled_from(FATES), min_size=1, max_size=40)


def check(found: MinuteVerdict, chain: Chain) -> None:
    assert found.state is State.SETTLED, found.reason
    assert lost(found) == of(chain.having("lost", "lost later"))
    entry, stage, expel = found.hops
    assert (entry.came, entry.went, entry.lost) == (len(chain.fates), len(chain.fates), 0)
    assert origins_of(stage.names.get("lost", ())) == of(chain.having("lost"))
    assert (stage.dropped, stage.elsewhere) == (len(chain.having("dropped")), len(chain.having("elsewhere")))
    assert origins_of(expel.names.get("dead", ())) == of(chain.having("dead"))
    assert origins_of(expel.names.get("waiting", ())) == of(chain.having("waiting"))
    assert found.went == expel.went == len(chain.having("went"))


@given(fates, st.randoms(use_true_random=False), st.booleans())
def test_what_is_lost_is_named_and_all_else_has_its_count(fates: list[str], source: Random, is_replaced: bool) -> None:
    chain = Chain(fates)
    again = [*chain.said(), *source.sample(chain.reports, source.randrange(len(chain.reports)))]
    source.shuffle(again)
    watched = Watched()
    watched.take(again)
    check(watched.settle(chain), chain)
    if is_replaced:  # the other hears some of it once more
        watched = watched.again(DUE_MS + 10_000)
        watched.take(source.sample(again, source.randrange(len(again))))
        watched.settle(chain, DUE_MS + 20_000)
        check(watched.written[MINUTE], chain)


@given(fates, st.randoms(use_true_random=False), st.integers(0, 5))
def test_before_all_is_said_nothing_is_named_that_is_not_lost(fates: list[str], source: Random, heard: int) -> None:
    chain = Chain(fates)
    watched = Watched()
    watched.take(source.sample(chain.said(), min(heard, len(chain.reports))))
    found = watched.settle(chain)
    assert len(lost(found) - of(chain.having("lost", "lost later"))) == 0


@given(fates, st.booleans())
def test_what_waited_or_was_dead_or_lost_is_taken_up_when_it_goes(fates: list[str], is_replaced: bool) -> None:
    chain = Chain(fates)
    watched = Watched()
    watched.take(chain.said())
    watched.settle(chain)
    if is_replaced:
        watched = watched.again(DUE_MS + 10_000)
    late = of(chain.having("waiting", "dead", "lost later"))
    watched.take([Report(EXPEL, "retried", 1, 0, [Tally(went=late)])], DUE_MS + 300_000)
    watched.tick(DUE_MS + 300_001)
    found = watched.written[MINUTE]
    assert found.went == len(chain.having("went", "waiting", "dead", "lost later"))
    assert (found.total("waiting"), found.total("dead")) == (0, 0)
    assert lost(found) == of(chain.having("lost"))


def test_a_minute_is_open_as_long_as_a_node_that_speaks_is_behind() -> None:
    chain = Chain(["went", "lost"])
    watched = Watched()
    watched.take(chain.said())
    watched.tick(DUE_MS - 1)
    assert not watched.written
    # The stage has read what there was before the minute was due: more may have been written since.
    watched.observation.look(DUE_MS - 1, chain.ends(), TOPICS)
    watched.take([ALIVE, replace(ALIVE, node=STAGE)], DUE_MS)
    watched.tick(DUE_MS + 1)
    found = watched.written[MINUTE]
    assert (found.state, found.reason) == (State.OPEN, "stage prepare is behind: 1 events are open")
    assert not lost(found)
    assert lost(watched.settle(chain)) == of([1])


def test_a_node_is_given_time_for_what_the_one_before_it_sent_late() -> None:
    chain = Chain(["went"] * 3)
    watched = Watched()
    entry, stage, expel = chain.said()[0], chain.reports[1:3], chain.reports[3]
    watched.take([entry, ALIVE], DUE_MS - 1)
    watched.observation.look(DUE_MS + 1, {(RAW, 0): 3, (OUT, 0): 0}, TOPICS)
    watched.take(stage, DUE_MS + 5_000)  # it was behind; the next has read all that there was when the minute was due
    watched.tick(DUE_MS + 6_000)
    assert not lost(watched.written[MINUTE])
    assert watched.written[MINUTE].state is not State.SETTLED
    watched.take([expel], DUE_MS + 7_000)
    assert watched.settle(chain, DUE_MS + 8_000).went == 3


def test_silence_is_unknown_and_never_a_loss() -> None:
    chain = Chain(["went", "lost"])
    watched = Watched()
    watched.take([chain.said()[0]])
    found = watched.settle(chain, DUE_MS + 100_000)
    assert (found.state, found.reason) == (State.UNKNOWN, "stage prepare is silent: 2 events are open")
    assert not lost(found)
    assert found.up is Up.UNKNOWN


def test_an_entry_that_is_silent_makes_a_minute_unknown_and_down_if_it_does_not_answer() -> None:
    watched = Watched()
    watched.tick(DUE_MS + 60_000)
    found = watched.written[MINUTE]
    assert (found.state, found.up) == (State.UNKNOWN, Up.UNKNOWN)
    assert found.reason == "ingest plays is silent: what came in there is not all known"
    watched.observation.not_answering(ENTRY, MINUTE)
    watched.tick(DUE_MS + 61_000)
    assert (watched.written[MINUTE].up, watched.written[MINUTE].why) == (Up.DOWN, "ingest plays did not answer")
    again = watched.again(DUE_MS + 62_000)
    again.observation.take(ALIVE, DUE_MS + 62_000)
    again.tick(DUE_MS + 63_000)
    found = again.written[MINUTE]
    assert (found.state, found.up, found.came) == (State.SETTLED, Up.DOWN, 0)


def test_what_stays_in_a_hole_of_what_a_node_has_read_is_unknown_in_the_end() -> None:
    chain = Chain(["went"] * 4 + ["lost"] * 2 + ["went"] * 4)
    torn = [Read(RAW, 0, 0, 4), Read(RAW, 0, 6, 10)]
    with_hole = [replace(each, reads=torn) if each.node == STAGE and each.reads else each for each in chain.said()]
    watched = Watched()
    watched.take(with_hole)
    assert watched.settle(chain).state is not State.SETTLED
    found = watched.settle(chain, DUE_MS + 200_000)
    found = watched.settle(chain, DUE_MS + 330_000)
    assert (found.state, found.hops[1].unknown, found.total("lost")) == (State.UNKNOWN, 2, 0)
    assert found.reason == "stage prepare has not said what became of 2 events"
    assert found.up is Up.UNKNOWN
    whole = Watched()
    whole.take(chain.reports)
    assert lost(whole.settle(chain)) == of([4, 5]), "the test shows nothing"


def test_what_a_killed_ingest_could_not_say_is_known_from_the_stage_behind_it() -> None:
    chain = Chain(["went", "lost", "went"])
    said = Tally(minute=MINUTE, came=of([0, 1]), went=of([0, 1]))
    killed = [replace(chain.said()[0], tallies=(said,)), *chain.reports[1:]]
    watched = Watched()
    watched.take(killed)
    found = watched.settle(chain)
    assert (found.state, lost(found)) == (State.SETTLED, of([1]))
    assert [each.came for each in found.hops] == [3, 3, 2]
    # It was not killed, and tells of it much later.
    said = Tally(minute=MINUTE, came=of([2]), went=of([2]))
    watched.take([Report(ENTRY, "after all", 0, 0, [said])], DUE_MS + 90_000)
    found = watched.settle(chain, DUE_MS + 90_000 + 60_000 + SETTLE_MS)
    assert (found.late, [each.came for each in found.hops]) == (0, [3, 3, 2])


def test_what_comes_late_counts_in_its_minute_once_and_is_called_late() -> None:
    chain = Chain(["went"] * 3)
    watched = Watched()
    watched.take(chain.said())
    assert watched.settle(chain).late == 0
    more = Chain(["went"] * 5)
    late = [replace(each, reporter="late") for each in more.said()]
    for _ in range(2):
        watched.take(late, DUE_MS + 90_000)
        found = watched.settle(more, DUE_MS + 90_000 + 60_000 + SETTLE_MS)
        assert (found.came, found.went, found.late, found.total("lost")) == (5, 5, 2, 0)
        watched = watched.again(DUE_MS + 300_000)


def test_what_is_told_in_the_very_millisecond_in_which_its_minute_is_due_counts() -> None:
    """The brokers may have more of that millisecond than was read when the minute was looked at."""
    chain, more, watched = Chain(["went"] * 3), Chain(["went"] * 5), Watched()
    watched.take([*chain.said(), ALIVE], DUE_MS - 1_000)
    watched.observation.look(DUE_MS, chain.ends(), TOPICS)
    watched.tick(DUE_MS)
    watched.take([replace(each, reporter="more") for each in more.said()], DUE_MS)
    found = watched.settle(more, DUE_MS + 1_000)
    assert (found.came, found.went, found.late) == (5, 5, 0)


@given(fates, fates, st.randoms(use_true_random=False), st.sets(st.integers(0, 2)))
@example(["went", "went"], ["dropped"], Random(1), {1})
def test_what_comes_late_while_its_minute_is_open_counts_once(
    fates: list[str], late: list[str], source: Random, restarts: set[int]
) -> None:
    """The endpoint's node is behind until both have come. Observers that follow hear all once more, in any order."""
    first, chain = Chain(fates), Chain([*fates, *late])
    _, *of_stage, last = chain.said()
    more = of(range(len(fates), len(chain.fates)))
    of_entry = Report(ENTRY, "late", 0, 0, [Tally(minute=MINUTE, came=more, went=more)])
    steps = [
        (first, first.said()[:-1], SAID_MS, DUE_MS),
        (chain, [of_entry, *of_stage], DUE_MS + 5_000, DUE_MS + 125_000),
        (chain, [last], DUE_MS + 130_000, DUE_MS + 131_000),
    ]
    watched, heard = Watched(), list[tuple[Report, int]]()
    for number, (ends, reports, said_ms, at_ms) in enumerate(steps):
        watched.take(reports, said_ms)
        heard += [(report, said_ms) for report in reports]
        watched.settle(ends, at_ms)
        if number in restarts:
            watched = watched.again(at_ms + 4_500)
            source.shuffle(heard)
            for report, then_ms in heard:
                watched.take([report], then_ms)
    check(watched.settle(chain, DUE_MS + 136_000), chain)
    assert watched.written[MINUTE].late == len(late)


def test_what_is_said_twice_counts_by_its_first_word_in_whichever_order_both_are_read() -> None:
    """A dead letter that is processed again may be told of in another partition, which is read before."""
    first, again = SAID_MS, DUE_MS + 200_000
    for is_judged in (False, True):
        for words in ((first, again), (again, first)):
            lots = Lots(SETTLE_MS)
            if is_judged:  # by an observer that was killed before it could write where to go on
                lots.judged[ENTRY, MINUTE] = {None}
            for at_ms in words:
                lots.told(ENTRY, MINUTE, of([7]), at_ms)
                lots.told(ENTRY, MINUTE - 3 * 1_440, of([8]), at_ms)  # of a time that cannot be true
            placed = {key: (len(lot.origins), len(lot.misdated)) for key, lot in lots.open.items() if lot.origins}
            assert placed == ({} if is_judged else {LotKey(ENTRY, MINUTE, None): (2, 1)}), (is_judged, words)


def test_what_a_broker_whose_clock_is_behind_has_taken_is_judged_too() -> None:
    """By its time the events came before their minute was due, and they are read when it is judged."""
    for behind_ms in (SETTLE_MS, 3_600_000):
        chain, watched = Chain(["went"] * 10), Watched()
        watched.observation.begin(MINUTE - 100)
        watched.take(chain.said())
        assert watched.settle(chain).came == 10
        now_ms = DUE_MS + 10_000
        some = of(range(10, 15))
        watched.take([Report(ENTRY, "more", 0, 0, [Tally(minute=MINUTE, came=some, went=some)])], now_ms - behind_ms)
        at_ms = watched.observation.lots.due_ms(now_ms // 60_000)
        watched.observation.take(ALIVE, at_ms)
        more = Chain(["went"] * 15)
        more.said()
        watched.take(report for report in more.reports[1:])
        watched.observation.look(at_ms + 1_000, more.ends(), TOPICS)
        for second in range(2, 6):
            watched.observation.look(at_ms + second * 1_000, more.ends(), TOPICS)
            watched.tick(at_ms + second * 1_000)
        found = watched.written[MINUTE]
        assert (found.came, found.went, found.late, found.state) == (15, 15, 5, State.SETTLED)


def test_times_that_cannot_be_true_count_in_the_minute_in_which_the_event_came() -> None:
    for wrong in (MINUTE + 500_000, MINUTE - 2_000, -500_000):
        chain = Chain(["went"] * 3)
        misdated = [
            replace(each, tallies=[replace(tally, minute=wrong) for tally in each.tallies]) for each in chain.said()
        ]
        watched = Watched()
        watched.take(misdated)
        found = watched.settle(chain)
        assert (found.came, found.went, found.misdated) == (3, 3, 3)
        assert list(watched.written) == [MINUTE, MINUTE + 1][: len(watched.written)]


def test_who_tells_of_lower_offsets_later_is_heard_whatever_was_written_meanwhile() -> None:
    chain = Chain(["went"] * 10)
    watched = Watched()
    entry = chain.said()[0]
    later, sooner = (
        replace(entry, reporter=name, tallies=[Tally(minute=MINUTE, came=of(some), went=of(some))])
        for name, some in (("one", range(5)), ("other", range(5, 10)))
    )
    watched.take([sooner])
    watched.observation.checkpoint(SAID_MS)
    watched = watched.again(SAID_MS)
    watched.take([sooner, later, *chain.reports[1:]])
    found = watched.settle(chain)
    assert (found.came, found.went, found.total("lost")) == (10, 10, 0)


def test_an_observer_that_goes_on_calls_nothing_lost_before_it_has_read_what_was_said_meanwhile() -> None:
    """By what was written nodes have read all there is, and what they said of it comes later in the tallies."""
    chain, watched = Chain(["went"] * 5), Watched()
    entry, *behind = chain.said()
    later_ms = DUE_MS + 600_000
    watched.take([entry])
    watched.take([ALIVE, *behind[:2]], later_ms)
    watched.observation.look(later_ms + 1_000, chain.ends(), TOPICS)
    watched.tick(later_ms + 1_000)  # it is read, and expel has not said what became of it
    again = watched.again(later_ms + 2_000)
    again.observation.reached.begin(EXPEL, {(OUT, 0): 5})
    again.observation.begun_ms = later_ms + 2_000
    again.take([entry])
    again.take([ALIVE], DUE_MS - 1_000)
    for second in range(1, 5):
        again.observation.look(later_ms + second * 1_000, chain.ends(), TOPICS)
        again.tick(DUE_MS + second * 1_000)
    assert not any(verdict.total("lost") for verdict in again.written.values())
    again.take([ALIVE, *behind], later_ms)
    for second in range(3, 8):
        again.observation.look(later_ms + second * 1_000, chain.ends(), TOPICS)
        again.tick(later_ms + second * 1_000)
    found = again.written[MINUTE]
    assert (found.state, found.went, found.total("lost")) == (State.SETTLED, 5, 0)


def test_a_stage_that_was_behind_tells_another_observer_nothing_new() -> None:
    chain = Chain(["went"] * 10)
    watched = Watched()
    entry, rest = chain.said()[0], chain.reports[1:]
    watched.take([entry, replace(ALIVE, sequence=2)])
    watched.take(rest, DUE_MS + 3_000_000)  # the stage was an hour behind
    first = watched.settle(chain, DUE_MS + 3_000_000)
    assert (first.came, first.went, first.late) == (10, 10, 0)
    again = watched.again(DUE_MS + 3_010_000)
    again.take(rest, DUE_MS + 3_000_000)  # it reads from a little before, and not the word of the entry
    again.settle(chain, DUE_MS + 3_200_000)
    found = again.written[MINUTE]
    assert (found.came, found.went, found.late) == (10, 10, 0)


def test_books_forget_what_is_said_again_of_what_is_judged() -> None:
    chain = Chain(["went"] * 1_000)
    watched = Watched()
    watched.take(chain.said())
    watched.settle(chain)
    watched.take(chain.reports, DUE_MS + 100_000)
    assert len(watched.observation.books.of(EXPEL).went) == 1_000
    watched.observation.checkpoint(DUE_MS + 100_001)
    assert len(watched.observation.books.of(EXPEL).went) == 0


def lag(went_ms: Sequence[int]) -> Tally:
    times = [MINUTE * 60_000] * len(went_ms)
    return Tally(
        minute=MINUTE, lag=Lags.of(times, times, [t + w for t, w in zip(times, went_ms, strict=True)]).of_minute(MINUTE)
    )


def test_lags_count_once_however_often_they_are_said_and_whoever_hears_them() -> None:
    chain = Chain(["went"] * 3)
    late = Report(EXPEL, "times", 1, 0, [lag([100, 200, 300])])
    watched = Watched()
    watched.take([*chain.said(), late, late])
    found = watched.settle(chain)
    assert (found.hops[2].lag.went.count, found.hops[2].duplicates) == (3, 0)
    again = watched.again(DUE_MS + 10_000)
    again.take([late])
    again.take([Report(EXPEL, "times", 2, 0, [lag([400])])], DUE_MS + 20_000)
    again.take([Report(EXPEL, "more", 1, 0, [Tally(went=of([99]))])], DUE_MS + 20_000)
    again.settle(chain, DUE_MS + 20_000)
    assert again.written[MINUTE].hops[2].lag.went.count == 3, "nothing of the minute changed: it is not written again"
    assert watched.written[MINUTE].up is Up.UP
    twice = Watched()
    twice.take([*chain.reports, late, replace(late, sequence=2)])
    assert twice.settle(chain).hops[2].duplicates == 3


def test_what_goes_once_its_minute_is_judged_is_no_duplicate_whoever_hears_it() -> None:
    for is_replaced in (False, True):
        chain, watched = Chain(["went", "waiting", "waiting", "waiting"]), Watched()
        watched.take([*chain.said(), Report(EXPEL, "a", 0, 0, [lag([10])])])
        watched.settle(chain)
        gone = [Report(EXPEL, "a", n, 0, [Tally(went=of([n])), lag([400])]) for n in (1, 2, 3)]
        watched.take(gone[:1], DUE_MS + 10_000)
        watched.tick(DUE_MS + 9_500)  # of one partition of the tallies more is read by then than of all of them
        if is_replaced:
            watched = watched.again(DUE_MS + 11_000)
            watched.take(gone[:1], DUE_MS + 10_000)
        watched.take(gone[1:2], DUE_MS + 12_000)
        watched.tick(DUE_MS + 13_000)
        expel = watched.written[MINUTE].hops[2]
        assert (expel.went, expel.lag.went.count, expel.duplicates) == (3, 3, 0)
        watched.take([*gone[2:], Report(EXPEL, "a", 4, 0, [Tally(went=of([2])), lag([500])])], DUE_MS + 14_000)
        watched.tick(DUE_MS + 15_000)
        expel = watched.written[MINUTE].hops[2]
        assert (expel.went, expel.lag.went.count, expel.duplicates) == (4, 4, 1)


def test_what_is_done_once_more_makes_no_minute_late_that_is_judged() -> None:
    """As when a day is processed again, in which a dead letter goes for the first time."""
    for fate in ("dead", "went"):
        for is_replaced in (False, True):
            chain, watched = Chain(["went"] * 99 + [fate]), Watched()
            first = 99 if fate == "dead" else 100
            watched.take([*chain.said(), Report(EXPEL, "a", 0, 0, [lag([10] * first)])])
            assert watched.settle(chain).up is Up.UP
            if is_replaced:
                watched = watched.again(DUE_MS + 9_000)
                watched.take(chain.reports)
            again = [Tally(went=of(range(100))), lag([3_600_000] * 100)]
            watched.take([Report(EXPEL, "b", 0, 0, again)] * 2, DUE_MS + 10_000)
            watched.tick(DUE_MS + 11_000)
            found = watched.written[MINUTE]
            assert (found.up, found.quantile_ms(0.95), found.went) == (Up.UP, 10, 100), (fate, is_replaced)
            assert found.total("duplicates") == first


def test_events_of_times_that_cannot_be_true_hide_no_duplicates() -> None:
    """How late they were counts in no minute."""
    odd = Tally(minute=MINUTE - 3 * 1_440, came=of(range(10, 15)), went=of(range(10, 15)))
    for is_late in (False, True):
        chain, watched = Chain(["went"] * 15), Watched()
        said = chain.said()
        entry = replace(said[0], tallies=[Tally(minute=MINUTE, came=of(range(10)), went=of(range(10))), odd])
        watched.take([entry, *said[1:], Report(EXPEL, "a", 0, 0, [lag([10] * 12)])])
        found = watched.settle(chain)
        if is_late:
            watched = watched.again(DUE_MS + 9_000)
            watched.take([Report(EXPEL, "b", 0, 0, [Tally(went=of(range(2))), lag([900_000] * 2)])], DUE_MS + 10_000)
            watched.tick(DUE_MS + 11_000)
            found = watched.written[MINUTE]
        assert (found.came, found.misdated, found.total("duplicates")) == (15, 5, 4 if is_late else 2)


def test_six_percent_that_are_not_delivered_are_down_although_the_rest_was_quick() -> None:
    for waiting, up in ((6, Up.DOWN), (4, Up.UP)):
        chain = Chain(["went"] * (100 - waiting) + ["waiting"] * waiting)
        watched = Watched()
        watched.take([*chain.said(), Report(EXPEL, "times", 1, 0, [lag([100] * (100 - waiting))])])
        assert watched.settle(chain).up is up
    slow = Watched()
    slow.take([*Chain(["went"] * 100).said(), Report(EXPEL, "times", 1, 0, [lag([100] * 90 + [5_000] * 10)])])
    found = slow.settle(Chain(["went"] * 100))
    assert (found.up, found.why) == (Up.DOWN, "p95 end to end was 5.06 s")


HELD = Node("p", NodeKind.expel, "held")
TWO_WAYS = [WAY, Way((Hop(ENTRY), Hop(STAGE, "held"), Hop(HELD)), RAW)]
EVENTS = of(range(10))


class TwoWays:
    """Ten events that go to two routes. What the routes do with them is the test's to say."""

    def __init__(self, in_stage: Iterable[int] = range(10)) -> None:
        self.observation = Observation(TWO_WAYS, SETTLE_MS, Sla(1_000))
        self.observation.begin(MINUTE)
        self.written: dict[str, MinuteVerdict] = {}
        self.said: list[Report] = []
        gone = of(in_stage)
        self.say(ENTRY, Tally(minute=MINUTE, came=EVENTS, went=EVENTS))
        routes = [Tally(route, MINUTE, went=gone) for route in ("acme", "held")]
        here = Tally(minute=MINUTE, came=EVENTS, went=gone, dead=EVENTS - gone)
        self.say(STAGE, here, *routes, reads=[Read(RAW, 0, 0, 10)])

    def say(self, node: Node, *tallies: Tally, reads: Sequence[Read] = (), at_ms: int = SAID_MS) -> None:
        self.said.append(Report(node, node.name, len(self.said), 0, tallies, tuple(reads)))
        self.observation.take(self.said[-1], at_ms)

    def again(self, at_s: int) -> "TwoWays":
        """Another observer, that goes on where this one was, and hears all once more."""
        other = TwoWays.__new__(TwoWays)
        other.observation, other.written, other.said = (
            Observation(TWO_WAYS, SETTLE_MS, Sla(1_000)),
            {**self.written},
            [],
        )
        checkpoint = self.observation.checkpoint(DUE_MS + at_s * 1_000)
        for verdict in self.written.values():
            other.observation.restore(verdict)
        other.observation.resume(checkpoint, MINUTE - 100)
        for report in self.said:
            other.observation.take(report, SAID_MS)
        return other

    def tick(self, at_s: int, count: int = 10) -> None:
        """So many seconds after the minute is due."""
        at_ms = DUE_MS + at_s * 1_000
        ends = {(RAW, 0): 10, (OUT, 0): count, ("held", 0): count}
        self.observation.look(at_ms, ends, {STAGE: [RAW], EXPEL: [OUT], HELD: ["held"]})
        self.observation.take(Report(ENTRY, "alive", at_s, 0), at_ms)
        self.observation.take(Report(HELD, "alive", at_s, 0), at_ms)
        for verdict in self.observation.tick(at_ms, at_ms):
            if verdict.minute == MINUTE:
                self.written[verdict.route] = decoded(encoded(verdict))

    @property
    def standing(self) -> list[tuple[str, int, int, int]]:
        """State, what went, is dead, and is lost on each way."""
        return [
            (verdict.state, verdict.went, verdict.total("dead"), verdict.total("lost"))
            for _, verdict in sorted(self.written.items())
        ]


def test_what_has_gone_on_one_way_is_known_to_another_that_is_held() -> None:
    world = TwoWays()
    world.say(EXPEL, Tally(came=EVENTS, went=of(range(9)), waiting=of([9])), reads=[Read(OUT, 0, 0, 10)])
    for second in range(1, 5):
        world.tick(second)
    assert [(state, went) for state, went, _, _ in world.standing] == [("settled", 9), ("open", 0)]
    world.say(EXPEL, Tally(went=of([9])), at_ms=DUE_MS + 5_000)
    for second in range(5, 8):
        world.tick(second)
    assert world.standing == [("settled", 10, 0, 0), ("open", 0, 0, 0)]
    world.say(HELD, Tally(came=EVENTS, went=EVENTS), reads=[Read("held", 0, 0, 10)], at_ms=DUE_MS + 8_000)
    for second in range(8, 12):
        world.tick(second)
    assert world.standing == [("settled", 10, 0, 0), ("settled", 10, 0, 0)]


def test_what_goes_on_two_ways_once_their_minute_is_judged_is_no_duplicate() -> None:
    world = TwoWays()
    world.say(EXPEL, Tally(came=EVENTS, went=of(range(9)), dead=of([9])), lag([10] * 9), reads=[Read(OUT, 0, 0, 10)])
    for second in range(1, 5):
        world.tick(second)
    assert [state for state, *_ in world.standing] == ["settled", "open"]
    world.say(EXPEL, Tally(went=of([9])), lag([400]), at_ms=DUE_MS + 6_000)
    world.tick(7)
    world.say(HELD, Tally(came=EVENTS, went=EVENTS), lag([10] * 10), reads=[Read("held", 0, 0, 10)])
    for second in range(8, 12):
        world.tick(second)
    assert [state for state, *_ in world.standing] == ["settled", "settled"]
    found = [world.written[way.name].hops[2] for way in TWO_WAYS]
    assert [(hop.went, hop.lag.went.count, hop.duplicates) for hop in found] == [(10, 10, 0)] * 2


def test_a_dead_letter_of_a_node_on_two_ways_that_goes_after_all_counts_once() -> None:
    world, some, one = TwoWays(range(9)), of(range(9)), of([9])
    world.say(STAGE, lag([10] * 9))
    for node, topic in ((EXPEL, OUT), (HELD, "held")):
        world.say(node, Tally(came=some, went=some), reads=[Read(topic, 0, 0, 9)])
    for second in range(1, 5):
        world.tick(second, count=9)
    assert world.standing == [("settled", 9, 1, 0)] * 2
    routes = [Tally(route, MINUTE, went=one) for route in ("acme", "held")]
    for second, duplicates in ((6, 0), (8, 1)):
        world.say(STAGE, Tally(minute=MINUTE, went=one, lag=lag([400]).lag), *routes, at_ms=DUE_MS + second * 1_000)
        for node in (EXPEL, HELD) if duplicates else ():
            world.say(node, Tally(came=one, went=one), at_ms=DUE_MS + second * 1_000)
        world.tick(second + 1, count=9)
        hops = [world.written[way.name].hops[1] for way in TWO_WAYS]
        assert [(hop.went, hop.lag.went.count, hop.duplicates) for hop in hops] == [
            (10, 10 + duplicates, duplicates)
        ] * 2


def test_a_way_that_was_open_when_another_observer_came_is_judged_by_that_one() -> None:
    world = TwoWays()
    world.say(EXPEL, Tally(came=EVENTS, went=of(range(8)), waiting=of([8])), reads=[Read(OUT, 0, 0, 10)])
    for second in range(1, 5):
        world.tick(second)
    assert world.standing == [("settled", 8, 0, 1), ("open", 0, 0, 0)]
    other = world.again(5)
    other.say(HELD, Tally(came=EVENTS, went=of(range(9))), reads=[Read("held", 0, 0, 10)], at_ms=DUE_MS + 6_000)
    other.say(EXPEL, Tally(went=of([8])), at_ms=DUE_MS + 6_000)
    for second in range(7, 12):
        other.tick(second)
    assert other.standing == [("settled", 9, 0, 1), ("settled", 9, 0, 1)]
    assert {lost(verdict) == of([9]) for verdict in other.written.values()} == {True}


def test_a_way_that_is_new_in_the_configuration_has_no_verdict_on_minutes_before() -> None:
    """An event of such a minute comes late: it would be all that there is in it."""
    watched, chain, late = Watched(), Chain(["went"] * 3), of([3])
    watched.take(chain.said())
    watched.settle(chain)
    other, written = Observation(TWO_WAYS, SETTLE_MS, Sla(1_000)), dict[tuple[str, int], MinuteVerdict]()
    for verdict in watched.written.values():
        other.restore(verdict)
    other.resume(watched.observation.checkpoint(DUE_MS + 10_000), MINUTE - 100)
    tally = Tally(minute=MINUTE, came=late, went=late)
    for node, reads in ((ENTRY, []), (STAGE, [Read(RAW, 0, 0, 4)]), (EXPEL, [Read(OUT, 0, 0, 4)])):
        routes = [Tally("acme", MINUTE, went=late)] if node == STAGE else []
        other.take(Report(node, "late", 1, 0, [tally, *routes], reads), DUE_MS + 30_000)
    for second in range(180, 186):
        at_ms = DUE_MS + second * 1_000
        for node in (ENTRY, HELD):
            other.take(Report(node, "alive", second, 0), at_ms)
        other.look(at_ms, {(RAW, 0): 4, (OUT, 0): 4, ("held", 0): 0}, {STAGE: [RAW], EXPEL: [OUT], HELD: ["held"]})
        written.update({(each.route, each.minute): each for each in other.tick(at_ms, at_ms)})
    old, new = (way.name for way in TWO_WAYS)
    assert (written[old, MINUTE].came, written[old, MINUTE].late) == (4, 1)
    assert (new, MINUTE) not in written
    assert written[new, MINUTE + 1].state is State.SETTLED
    assert not any(lot.key.minute == MINUTE for lot in other.lots.open.values())


def test_lags_of_a_way_that_is_open_are_known_to_another_observer_too() -> None:
    world = TwoWays()
    world.say(EXPEL, Tally(came=EVENTS, went=EVENTS), lag([50] * 10), reads=[Read(OUT, 0, 0, 10)])
    world.say(HELD, Tally(came=of(range(9)), went=of(range(9))), lag([5_000] * 9), reads=[Read("held", 0, 0, 9)])
    for second in range(1, 5):
        world.tick(second)
    assert [state for state, *_ in world.standing] == ["settled", "open"]
    for each in (world.again(5), world):
        each.say(HELD, Tally(came=of([9]), went=of([9])), reads=[Read("held", 0, 9, 10)], at_ms=DUE_MS + 6_000)
        for second in range(7, 12):
            each.tick(second)
        assert each.standing == [("settled", 10, 0, 0), ("settled", 10, 0, 0)]
        held = each.written[TWO_WAYS[1].name]
        assert (held.up, held.why, held.hops[2].lag.went.count) == (Up.DOWN, "p95 end to end was 5.06 s", 9)


def test_lags_of_a_node_on_two_ways_are_taken_from_the_newest_verdict() -> None:
    world = TwoWays()
    world.say(STAGE, lag([10] * 5))
    world.say(EXPEL, Tally(came=EVENTS, went=EVENTS), reads=[Read(OUT, 0, 0, 10)])
    for second in range(1, 5):
        world.tick(second)
    world.say(STAGE, lag([20] * 5), at_ms=DUE_MS + 5_000)
    world.say(HELD, Tally(came=EVENTS, went=of(range(9)), dead=of([9])), reads=[Read("held", 0, 0, 10)])
    for second in range(6, 10):
        world.tick(second)
    assert world.standing == [("settled", 10, 0, 0), ("settled", 9, 1, 0)]
    for each in (world.again(11), world):
        each.say(HELD, Tally(went=of([9])), at_ms=DUE_MS + 12_000)
        each.tick(13)
        held = each.written[TWO_WAYS[1].name]
        assert (held.went, held.hops[1].lag.went.count) == (10, 10)


def test_with_too_many_minutes_to_follow_one_way_does_not_make_another_forget(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "_MOST_FOLLOWED", 1)
    world, gone = TwoWays(range(9)), of(range(9))
    world.say(EXPEL, Tally(came=gone, went=gone), reads=[Read(OUT, 0, 0, 9)])
    world.say(HELD, Tally(came=gone, went=gone), reads=[Read("held", 0, 0, 9)])
    for second in range(1, 8):
        world.tick(second, 9)
    assert world.standing == [("settled", 9, 1, 0), ("settled", 9, 1, 0)]


def test_three_ways_are_followed_for_two_days(monkeypatch: MonkeyPatch) -> None:
    """A twentieth of both: two hours and a half, and what there is room for in so much less memory."""
    count = KEPT_MINUTES // 20
    ends = [Node("p", NodeKind.expel, name) for name in ("one", "two", "three")]
    ways = [Way((Hop(ENTRY), Hop(STAGE, end.name), Hop(end)), RAW) for end in ends]
    whole, minutes = of(range(2 * count)), range(MINUTE, MINUTE + count)

    def having(way: Way, minute: int) -> MinuteVerdict:
        first = 2 * (minute - MINUTE)
        names = {"waiting": [f"{RAW}/0/{first}"]}
        hops = [HopVerdict(hop.node.kind.name, hop.node.name, hop.route, came=2, went=2) for hop in way.hops]
        hops[-1] = replace(hops[-1], went=1, waiting=1, names=names)
        return MinuteVerdict(way.name, minute, State.SETTLED, Up.DOWN, hops, lots=[None])

    verdicts = [having(way, minute) for minute in minutes for way in ways]
    at_ms = (MINUTE + count) * 60_000
    for most, are_followed in ((observation._MOST_FOLLOWED // 20, True), (2**20, False)):
        monkeypatch.setattr(observation, "_MOST_FOLLOWED", most)
        observed = Observation(ways, SETTLE_MS, Sla(1_000))
        for verdict in verdicts:
            observed.restore(verdict)
        observed.begin(MINUTE + count)
        observed.tick(at_ms, at_ms)
        for number, end in enumerate(ends):
            observed.take(Report(end, "retries", number, 0, [Tally(went=whole)]), at_ms)
        found = {(each.route, each.minute) for each in observed.tick(at_ms + 1_000, at_ms + 1_000) if each.went == 2}
        followed = {minute for _, minute in found}
        assert found == {(way.name, minute) for minute in followed for way in ways}
        if are_followed:
            assert followed == {*minutes}
            assert observed.given_up is None
        else:  # the newest ones, as many as there is room for
            assert 50 < len(followed) < 120
            assert followed == {minute for minute in minutes if minute > (observed.given_up or 0)}
        assert not observed.books.of(STAGE).went, "nothing is remembered of what is final or given up"


def test_what_is_far_apart_takes_more_to_follow_than_a_range() -> None:
    apart, together = (Origins.of_offsets(RAW, 0, list(range(0, 60_000 * step, step))) for step in (30, 1))
    assert apart.size > 100_000
    assert (Origins() | together).size < apart.size / 10
    assert Origins.of_ranges([(RAW, 0, 0, 10**7)]).size < 10_000


def test_events_that_others_write_into_a_stages_topics_are_judged_from_that_stage_on() -> None:
    ads = Origins.of_ranges([("ads.raw", 0, 0, 9)])
    some = Origins.of_ranges([("ads.raw", 0, 0, 6)])
    ways = [WAY, Way((Hop(STAGE, "acme"), Hop(EXPEL)), topics=["ads.raw"])]
    observed, written = Observation(ways, SETTLE_MS, Sla(1_000)), dict[str, MinuteVerdict]()
    observed.begin(MINUTE)
    both = EVENTS | ads
    for number, (node, tallies, reads) in enumerate(
        [
            (ENTRY, [Tally(minute=MINUTE, came=EVENTS, went=EVENTS)], []),
            (STAGE, [Tally(minute=MINUTE, came=both, went=both)], [Read(RAW, 0, 0, 10), Read("ads.raw", 0, 0, 10)]),
            (STAGE, [Tally("acme", MINUTE, went=both)], []),
            (EXPEL, [Tally(came=EVENTS | some, went=EVENTS | some)], [Read(OUT, 0, 0, 20)]),
        ]
    ):
        observed.take(Report(node, node.name, number, 0, tallies, reads), SAID_MS)
    for second in range(1, 5):
        at_ms = DUE_MS + second * 1_000
        ends = {(RAW, 0): 10, ("ads.raw", 0): 10, (OUT, 0): 20}
        observed.look(at_ms, ends, {STAGE: [RAW, "ads.raw"], EXPEL: [OUT]})
        observed.take(Report(ENTRY, "alive", second, 0), at_ms)
        written |= {verdict.route: verdict for verdict in observed.tick(at_ms, at_ms) if verdict.minute == MINUTE}
    of_ingest, own = (written[way.name] for way in ways)
    assert (of_ingest.state, of_ingest.came, of_ingest.went) == ("settled", 10, 10)
    assert (own.state, own.came, own.went) == ("settled", 10, 7)
    assert lost(own) == ads - some


def test_events_of_a_topic_that_is_made_again_are_judged() -> None:
    first, second = Chain(["went"] * 100), Chain(["went", "lost"] * 10)
    watched = Watched()
    watched.observation.identify({RAW: "one", OUT: "out"})
    watched.take(first.said())
    check(watched.settle(first), first)
    watched = watched.again(DUE_MS + 9_000)
    assert watched.observation.identify({RAW: "two", OUT: "out"}) == [RAW]
    minute = MINUTE + 10
    for report in second.said():
        tallies = [replace(tally, minute=minute) for tally in report.tallies]
        reads = [read if read.topic == RAW else replace(read, first=100, following=110) for read in report.reads]
        again = replace(report, sequence=report.sequence + 1_000, tallies=tallies, reads=reads)
        watched.take([again], minute * 60_000 + 30_000)
    watched.observation.take(ALIVE, (minute + 1) * 60_000 + 5)
    for second_s in range(1, 5):
        at_ms = (minute + 1) * 60_000 + SETTLE_MS + second_s * 1_000
        watched.observation.look(at_ms, {(RAW, 0): 20, (OUT, 0): 110}, TOPICS)
        watched.tick(at_ms)
    found = watched.written[minute]
    assert (found.state, found.came, found.went) == ("settled", 20, 10)
    assert lost(found) == of(range(1, 20, 2))


def test_what_is_said_of_the_old_topic_once_it_is_made_again_hides_no_new_events() -> None:
    """A node says after some seconds what it did before. An observer that starts again hears it once more."""
    old, hours = of(range(90_000, 100_000)), 3
    straggler = Report(ENTRY, "old", 1, 0, [Tally(minute=MINUTE, came=old, went=old)])
    for is_replaced in (False, True):
        watched = Watched()
        watched.observation.identify({RAW: "one", OUT: "out"})
        watched.observation.look(SAID_MS - 9_000, {(RAW, 0): 100_000, (OUT, 0): 0}, TOPICS)
        assert watched.observation.identify({RAW: "two", OUT: "out"}, SAID_MS) == [RAW]
        watched.observation.look(SAID_MS, {(RAW, 0): 5, (OUT, 0): 0}, TOPICS)
        watched.take([straggler], SAID_MS - 1_000 if is_replaced else SAID_MS + 2_000)
        if is_replaced:
            watched = watched.again(SAID_MS + 3_000)
            watched.take([straggler], SAID_MS - 1_000)
            watched.observation.look(SAID_MS + 3_000, {(RAW, 0): 5, (OUT, 0): 0}, TOPICS)
        for minute in range(1, 60 * hours):
            at_ms = SAID_MS + minute * 60_000
            watched.take([replace(ALIVE, sequence=minute)], at_ms)
            watched.observation.look(at_ms, {(RAW, 0): 5 + minute, (OUT, 0): 0}, TOPICS)
            watched.tick(at_ms)
            watched.observation.checkpoint(at_ms)
        minute, new = MINUTE + 60 * hours, of(range(1_000, 1_010))
        at_ms = minute * 60_000 + 30_000
        watched.take([Report(ENTRY, "new", 1, 0, [Tally(minute=minute, came=new, went=new)])], at_ms)
        same = of(range(95_000, 95_010))
        watched.take([Report(ENTRY, "new", 2, 0, [Tally(minute=minute, came=same, went=same)])], at_ms)
        watched.tick(DUE_MS + (60 * hours + 1) * 60_000)
        found = {verdict.minute: verdict.came for verdict in watched.written.values()}[minute]
        assert found == (20 if is_replaced else 10), is_replaced


def test_verdicts_from_before_a_topic_was_made_again_stay_as_they_are(monkeypatch: MonkeyPatch) -> None:
    """What is named in them are other events now."""
    chain = Chain(["lost", "dead", "waiting", "went"])
    whole = of(range(4))
    new = [
        Report(ENTRY, "new", 1, 0, [Tally(minute=MINUTE + 10, came=whole, went=whole)]),
        Report(STAGE, "new", 1, 0, [Tally(minute=MINUTE + 10, came=whole, went=whole), Tally("acme", went=whole)]),
        Report(EXPEL, "new", 1, 0, [Tally(came=whole, went=of([0, 1])), Tally(dead=of([2]))]),
    ]
    for most_followed in (2**20, 0):  # with 0 nothing is in memory any more, but the record
        monkeypatch.setattr(observation, "_MOST_FOLLOWED", most_followed)
        for replaced in (set[str](), {"before"}, {"after"}):
            watched = Watched()
            watched.observation.identify({RAW: "one", OUT: "out"})
            watched.take(chain.said())
            before = watched.settle(chain)
            if "before" in replaced:
                watched = watched.again(DUE_MS + 9_000)
            watched.observation.identify({RAW: "two", OUT: "out"})
            watched.tick(DUE_MS + 10_000)
            if "after" in replaced:
                watched = watched.again(DUE_MS + 11_000)
                watched.observation.identify({RAW: "two", OUT: "out"})
            watched.take(new, (MINUTE + 10) * 60_000 + 30_000)
            watched.tick((MINUTE + 10) * 60_000 + 31_000)
            found = watched.written[MINUTE]
            assert (found.state, found.up, found.why) == (before.state, before.up, before.why)
            assert (found.came, found.went) == (before.came, before.went)
            for fate in ("lost", "dead", "waiting"):
                assert (found.total(fate), found.named(fate)) == (before.total(fate), ([], 1)), fate


def test_a_minute_that_was_under_way_when_the_first_observer_began_has_no_verdict_of_the_next_one_either() -> None:
    """It would have a few of its events, those that came last."""
    chain, watched = Chain(["went"] * 3), Watched()
    watched.observation.begin(MINUTE + 1)
    watched.tick(SAID_MS + 40_000)
    again = watched.again(SAID_MS + 45_000)
    again.take(chain.said(), SAID_MS + 46_000)
    for second in range(1, 5):
        again.observation.look(DUE_MS + second * 1_000, chain.ends(), TOPICS)
        again.tick(DUE_MS + second * 1_000)
    assert MINUTE not in again.written


def test_minutes_of_which_nothing_is_known_any_more_have_no_verdict() -> None:
    """After days without an observer: what was said of them is deleted."""
    watched = Watched()
    checkpoint = watched.observation.checkpoint(DUE_MS)
    other, now = Watched(), MINUTE + 10_000
    other.observation.resume(checkpoint, now - 100)
    other.observation.take(ALIVE, now * 60_000)
    other.tick(now * 60_000)
    assert min(other.written) == now - 100


def test_a_minute_that_is_open_for_too_long_is_unknown_and_given_up(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "KEPT_MINUTES", 120)
    late = Report(ENTRY, "late", 1, 0, [Tally(minute=MINUTE, came=of([3]), went=of([3]))])
    for is_replaced in (False, True):
        chain, watched = Chain(["went", "lost", "dropped"]), Watched()
        watched.take(chain.said()[:-1])
        watched.take([late], DUE_MS + 5_000)
        watched.settle(chain)
        if is_replaced:
            watched = watched.again(DUE_MS + 10_000)
            watched.take(chain.reports[:-1])
            watched.take([late], DUE_MS + 5_000)
        found = watched.settle(chain, DUE_MS + 11_000)
        assert (found.state, found.hops[2].open) == (State.UNKNOWN, 1)
        for minute in range(10, 130, 10):
            at_ms = DUE_MS + minute * 60_000 + 1
            watched.take([replace(ALIVE, sequence=minute)], at_ms)
            watched.observation.look(at_ms, {(RAW, 0): 4, (OUT, 0): 1}, TOPICS)
            watched.tick(at_ms)
        found = watched.written[MINUTE]
        assert (found.state, found.up, found.came, found.late) == (State.UNKNOWN, Up.UNKNOWN, 4, 1)
        assert found.reason == "stage prepare has not said what became of 1 events"
        # The stage had read all that came in time: what it did not speak of is lost. Of the late one nobody knows.
        counts = [(hop.lost, hop.unknown, hop.open) for hop in found.hops]
        assert counts == [(0, 0, 0), (1, 1, 0), (0, 1, 0)]
        assert min(lot.key.minute for lot in watched.observation.lots.open.values()) > MINUTE + 120
        assert watched.observation.checkpoint(at_ms).minute > MINUTE + 110


def test_a_node_that_is_silent_for_days_leaves_no_more_open_than_two_days(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "KEPT_MINUTES", 20)
    watched, sizes = Watched(), list[tuple[int, ...]]()
    for minute in range(MINUTE, MINUTE + 100):
        at_ms, one = minute * 60_000 + 1_000, of([minute])
        gone = Tally(minute=minute, came=one, went=one)
        for reports in (
            [Report(ENTRY, "e", minute, 0, [gone])],
            [
                Report(
                    STAGE, "s", minute, 0, [gone, Tally("acme", minute, went=one)], [Read(RAW, 0, minute, minute + 1)]
                )
            ],
        ):
            watched.take(reports, at_ms)
        watched.tick(at_ms)
        watched.observation.checkpoint(at_ms)
        at = watched.observation
        sizes.append((len(at.lots.open), len(at._standing), len(at._records), len(at._progress), len(at.books.sets)))
    assert sizes[30] == sizes[-1]
    found = watched.written[MINUTE]
    assert (found.state, found.hops[2].unknown) == (State.UNKNOWN, 1)
    assert found.reason == "expel acme has not said what became of 1 events"


def test_many_minutes_that_are_judged_at_once_take_no_more_steps_each_than_few(monkeypatch: MonkeyPatch) -> None:
    """The endpoint's node was behind for hours, and catches up."""
    steps, make = Counter[str](), Origins.__init__

    def counted(self: Origins, by_place: Mapping[Place, BitMap64] | None = None) -> None:
        steps["sets"] += 1
        make(self, by_place)

    class Open(dict[LotKey, Lot]):
        def values(self) -> Any:
            for lot in super().values():
                steps["lots"] += 1
                yield lot

    monkeypatch.setattr(Origins, "__init__", counted)
    taken = dict[int, Counter[str]]()
    for count in (50, 200):
        watched = Watched()
        watched.observation.lots.open = Open()
        for number in range(count):
            minute, one = MINUTE + number, of([number])
            at_ms, gone = minute * 60_000 + 30_000, Tally(minute=minute, came=one, went=one)
            reads = [Read(RAW, 0, number, number + 1)]
            watched.take([Report(ENTRY, "e", number, 0, [gone])], at_ms)
            watched.take([Report(STAGE, "s", number, 0, [gone, Tally("acme", minute, went=one)], reads)], at_ms)
        at_ms = DUE_MS + count * 60_000
        watched.tick(at_ms)
        assert len(watched.written) >= count
        whole = of(range(count))
        watched.take([Report(EXPEL, "a", 1, 0, [Tally(came=whole, went=whole)], [Read(OUT, 0, 0, count)])], at_ms)
        watched.take([replace(ALIVE, sequence=count)], at_ms)
        watched.observation.look(at_ms, {(RAW, 0): count, (OUT, 0): count}, TOPICS)
        steps.clear()
        watched.tick(at_ms + 1_000)
        taken[count] = Counter(steps)
        assert {watched.written[MINUTE + number].went for number in range(count)} == {1}
        assert not watched.observation.books.of(EXPEL).went
    assert taken[200]["sets"] < 5 * taken[50]["sets"]
    assert taken[200]["lots"] < 5 * taken[50]["lots"]


def test_what_is_too_old_to_be_read_again_is_not_written_over(monkeypatch: MonkeyPatch) -> None:
    """Late events of a minute whose record was not read: there would be nothing but these in it."""
    chain = Chain(["went"] * 3)
    late = Report(ENTRY, "late", 1, 0, [Tally(minute=MINUTE, came=of([3]), went=of([3]))])
    watched = Watched()
    watched.take(chain.said())
    before = watched.settle(chain)
    watched.take([late], DUE_MS + 5_000)
    checkpoint = watched.observation.checkpoint(DUE_MS + 10_000)
    monkeypatch.setattr(observation, "KEPT_MINUTES", 20)
    other = Watched()
    other.written = {**watched.written}
    other.observation.resume(checkpoint, MINUTE + 1)
    other.take(
        [late, Report(STAGE, "late", 1, 0, [Tally(minute=MINUTE, came=of([3]), dropped=of([3]))])], DUE_MS + 5_000
    )
    other.take([ALIVE], DUE_MS + 600_000)
    for minute in (10, 30, 31):
        other.tick(DUE_MS + minute * 60_000)
    assert other.written[MINUTE] == before


def test_lags_with_times_that_cannot_be_true_and_nodes_on_no_way_leave_nothing_in_memory() -> None:
    watched = Watched()
    retrier = Node("p", NodeKind.retrier, "acme")
    for number, minute in enumerate([*range(-3_050, -3_000), *range(5_000, 5_050)]):
        time_ms = minute * 60_000
        lags = Lags.of([time_ms], [SAID_MS], [SAID_MS]).of_minute(minute)
        one = of([number])
        watched.take([Report(ENTRY, "old", number, 0, [Tally(minute=minute, came=one, went=one, lag=lags)])])
        watched.take([Report(retrier, "r", number, 0, [Tally(came=one, went=one, lag=lags, minute=minute)])])
    watched.tick(SAID_MS)
    books = watched.observation.books
    assert not books.lags
    assert {node for node, _ in books.sets} <= {ENTRY, STAGE, EXPEL}


def test_gaps_that_nobody_tells_of_do_not_hold_up_for_ever_what_is_remembered_by_one_number() -> None:
    lots = Lots(SETTLE_MS)
    for minute in range(60 * 8):
        every_second = Origins.of_offsets(RAW, 0, list(range(minute * 60, minute * 60 + 60, 2)))
        lots.told(ENTRY, minute, every_second, minute * 60_000)
        for lot in [*lots.open.values()]:
            lots.close(lot)
        lots.raise_floors(minute * 60_000, {(RAW, 0): minute * 60 + 60})
    floors, placed = lots.checkpoint()[ENTRY]
    assert floors[RAW, 0] >= 60 * 60 * 6
    assert len(placed) <= 60 * 60 * 2


def test_two_stages_that_read_the_same_topic_are_both_judged() -> None:
    nodes = [Node("p", NodeKind.stage, "one"), Node("p", NodeKind.stage, "two")]
    ends = [Node("p", NodeKind.expel, "one"), Node("p", NodeKind.expel, "two")]
    ways = [Way((Hop(node), Hop(end))) for node, end in zip(nodes, ends, strict=True)]
    observed, written = Observation(ways, SETTLE_MS, Sla(1_000)), dict[str, MinuteVerdict]()
    observed.begin(MINUTE)

    def say(node: Node, *tallies: Tally, reads: Sequence[Read], at_ms: int) -> None:
        observed.take(Report(node, node.name, at_ms, 0, tallies, reads), at_ms)

    def tick(at_s: int) -> None:
        at_ms = DUE_MS + at_s * 1_000
        offsets = {(RAW, 0): 10, ("one", 0): 10, ("two", 0): 10}
        observed.look(at_ms, offsets, {**{node: [RAW] for node in nodes}, ends[0]: ["one"], ends[1]: ["two"]})
        for end in ends:
            say(end, reads=[], at_ms=at_ms)
        written.update({each.route: each for each in observed.tick(at_ms, at_ms) if each.minute == MINUTE})

    went = {nodes[0]: EVENTS, nodes[1]: EVENTS, ends[0]: EVENTS, ends[1]: of([0])}
    for node in (nodes[0], ends[0], ends[1], nodes[1]):
        topic = RAW if node in nodes else node.name
        minute = MINUTE if node in nodes else None
        tally = Tally(minute=minute, came=went[node], went=went[node])
        say(node, tally, reads=[Read(topic, 0, 0, 10)], at_ms=SAID_MS)
    for second in range(1, 6):
        tick(second)
    one, two = (written[way.name] for way in ways)
    assert (one.state, one.came, one.went, one.total("lost")) == ("settled", 10, 10, 0)
    assert (two.state, two.came, two.went) == ("settled", 10, 1)
    assert lost(two) == of(range(1, 10))


def test_what_a_killed_ingest_could_not_say_is_known_from_a_stage_that_comes_back_hours_later() -> None:
    """Both were killed, and ingest went on soon. The stage had read what ingest had told, and not what it had not."""
    watched, told, untold, after = Watched(), range(10), range(10, 13), range(13, 20)
    back = MINUTE + 5

    def passed(offsets: Sequence[int], minute: int) -> list[Report]:
        some, reads = of(offsets), [Read(RAW, 0, offsets[0], offsets[-1] + 1)]
        here = Tally(minute=minute, came=some, went=some)
        return [Report(STAGE, "s", offsets[0], 0, [here, Tally("acme", minute, went=some)], reads)]

    def taken(offsets: Sequence[int], reads: Read) -> Report:
        return Report(EXPEL, "a", offsets[0], 0, [Tally(came=of(offsets), went=of(offsets))], [reads])

    def minutes(first: int, last: int, raw: int, out: int) -> None:
        for minute in range(first, last):
            at_ms = minute * 60_000 + 50_000
            watched.take([replace(ALIVE, sequence=minute), replace(ALIVE, node=EXPEL, sequence=minute)], at_ms)
            watched.observation.look(at_ms, {(RAW, 0): raw, (OUT, 0): out}, TOPICS)
            watched.tick(at_ms)
            watched.observation.checkpoint(at_ms)

    watched.take([Report(ENTRY, "e", 0, 0, [Tally(minute=MINUTE, came=of(told), went=of(told))])])
    watched.take([*passed(told, MINUTE), taken(told, Read(OUT, 0, 0, 10))])
    watched.observation.look(SAID_MS + 1_000, {(RAW, 0): 10, (OUT, 0): 10}, TOPICS)
    watched.tick(SAID_MS + 2_000)
    minutes(back, back + 1, 13, 10)
    assert watched.written[MINUTE].state is State.SETTLED
    said = Tally(minute=back, came=of(after), went=of(after))
    watched.take([Report(ENTRY, "again", 0, 0, [said])], back * 60_000 + 51_000)
    minutes(back + 1, back + 90, 20, 10)
    reads = Read(OUT, 0, 10, 20)
    watched.take([*passed([*untold, *after], MINUTE), taken(after, reads)], (back + 90) * 60_000)
    minutes(back + 90, back + 100, 20, 20)
    assert sum(verdict.came for verdict in watched.written.values()) == 20
    assert [text for verdict in watched.written.values() for text in verdict.named("lost")[0]] == ["plays.raw/0/10-12"]


def test_a_minute_is_no_longer_unknown_once_the_node_has_said_what_it_could_not() -> None:
    """The topic of tallies was away for the stage alone, for longer than a hole is waited for."""
    for is_replaced in (False, True):
        chain = Chain(["went"] * 5 + ["dropped", "went"])
        torn = [Read(RAW, 0, 0, 4), Read(RAW, 0, 6, 7)]
        with_hole, later, whole = list[Report](), list[Report](), of([4, 5])
        for each in chain.said():
            if each.node != STAGE:
                with_hole.append(each)
                continue
            tallies = [replace(one, **{n: getattr(one, n) - whole for n in SETS}) for one in each.tallies]
            with_hole.append(replace(each, tallies=tallies, reads=torn if each.reads else ()))
            late = [replace(one, **{n: getattr(one, n) & whole for n in SETS}) for one in each.tallies]
            later.append(replace(each, tallies=late, reads=[Read(RAW, 0, 4, 6)] if each.reads else ()))
        watched = Watched()
        watched.take(with_hole)
        watched.settle(chain)
        watched.settle(chain, DUE_MS + 200_000)
        found = watched.settle(chain, DUE_MS + 330_000)
        assert (found.state, found.up, found.hops[1].unknown) == (State.UNKNOWN, Up.UNKNOWN, 2)
        if is_replaced:
            watched = watched.again(DUE_MS + 340_000)
            watched.take(with_hole)
        watched.take(later, DUE_MS + 350_000)
        found = watched.settle(chain, DUE_MS + 351_000)
        assert [hop.unknown for hop in found.hops] == [0, 0, 0]
        assert (found.state, found.reason, found.up) == (State.SETTLED, None, Up.UP)
        assert (found.went, found.total("dropped")) == (6, 1)


def test_a_node_has_not_passed_by_what_stands_before_the_marker_of_a_transaction() -> None:
    """The endpoint's node is held, with the records of a stage that writes in transactions before it."""
    chain, watched = Chain(["went"] * 4 + ["lost later"]), Watched()
    watched.take(chain.said()[:-1])
    ends = {(RAW, 0): 5, (OUT, 0): 6}
    for second in range(0, 600, 10):
        at_ms = DUE_MS + second * 1_000
        watched.take([replace(ALIVE, sequence=second), replace(ALIVE, node=EXPEL, sequence=second)], at_ms)
        watched.observation.look(at_ms, ends, TOPICS)
        watched.tick(at_ms + 1_000)
        if second == 10:
            watched.observation.nothing_there(EXPEL, Origins.of_ranges([(OUT, 0, 5, 5)]))
    found = watched.written[MINUTE]
    assert (found.state, found.reason) == (State.OPEN, "expel acme is behind: 5 events are open")
    watched.take([chain.reports[-1]], DUE_MS + 600_000)
    watched.observation.look(DUE_MS + 601_000, ends, TOPICS)
    watched.tick(DUE_MS + 602_000)
    found = watched.written[MINUTE]
    assert (found.state, found.reason, lost(found)) == (State.SETTLED, None, of([4]))


def test_a_dead_letter_of_a_stage_that_goes_after_all_is_not_lost_before_the_next_node_has_come_to_it() -> None:
    for is_replaced in (False, True):
        chain, watched = Chain(["went"] * 3), Watched()
        one, others = of([1]), of([0, 2])
        entry, stage, route, expel = chain.said()
        dead = replace(stage, tallies=[Tally(minute=MINUTE, came=of(range(3)), went=others, dead=one)])
        watched.take([entry, dead, replace(route, tallies=[Tally("acme", MINUTE, went=others)])])
        watched.take([replace(expel, tallies=[Tally(came=others, went=others)])])
        assert watched.settle(chain).total("dead") == 1
        # It is replayed: the stage tells of it first.
        passed = [Tally(minute=MINUTE, came=one, went=one), Tally("acme", MINUTE, went=one)]
        watched.take([replace(stage, sequence=90, tallies=passed, reads=[Read(RAW, 0, 3, 4)])], DUE_MS + 60_000)
        watched.tick(DUE_MS + 61_000)
        found = watched.written[MINUTE]
        assert (found.total("dead"), found.total("lost"), found.total("unknown")) == (0, 0, 1)
        if is_replaced:
            watched = watched.again(DUE_MS + 62_000)
        gone = replace(expel, sequence=91, tallies=[Tally(came=one, went=one)], reads=[Read(OUT, 0, 3, 4)])
        watched.take([gone], DUE_MS + 63_000)
        watched.tick(DUE_MS + 64_000)
        found = watched.written[MINUTE]
        assert (found.went, found.total("lost"), found.total("unknown"), found.state) == (3, 0, 0, State.SETTLED)


def test_a_node_is_given_time_for_what_the_one_before_it_tells_of_after_all_was_said() -> None:
    """A dead letter is replayed while the minute is open."""
    chain, watched = Chain(["went", "went"]), Watched()
    first, second = of([0]), of([1])
    entry, stage, *_ = chain.said()
    dead = [Tally(minute=MINUTE, came=first | second, went=first, dead=second), Tally("acme", MINUTE, went=first)]
    watched.take([entry, replace(stage, tallies=dead)])
    watched.take([ALIVE], DUE_MS + 1_000)
    watched.observation.look(DUE_MS + 2_000, {(RAW, 0): 2, (OUT, 0): 1}, TOPICS)
    watched.tick(DUE_MS + 3_000)
    watched.observation.look(DUE_MS + 4_000, {(RAW, 0): 2, (OUT, 0): 1}, TOPICS)
    passed = [Tally(minute=MINUTE, came=second, went=second), Tally("acme", MINUTE, went=second)]
    watched.take([replace(stage, sequence=90, tallies=passed, reads=[Read(RAW, 0, 2, 3)])], DUE_MS + 5_000)
    gone = [
        Report(EXPEL, "a", n, 0, [Tally(came=one, went=one)], [Read(OUT, 0, n, n + 1)])
        for n, one in enumerate([first, second])
    ]
    watched.take(gone[:1], DUE_MS + 5_000)
    watched.tick(DUE_MS + 6_000)
    assert not lost(watched.written[MINUTE])
    watched.take(gone[1:], DUE_MS + 7_000)
    watched.observation.look(DUE_MS + 8_000, {(RAW, 0): 3, (OUT, 0): 2}, TOPICS)
    watched.tick(DUE_MS + 9_000)
    found = watched.written[MINUTE]
    assert (found.state, found.went, found.total("dead"), found.total("lost")) == (State.SETTLED, 2, 0, 0)


def test_what_ingest_tells_long_after_the_stage_is_not_lost_for_an_observer_that_comes_later() -> None:
    """The one before it has heard both at once, in any order, and the endpoint's node is away."""
    for is_reversed in (False, True):
        chain, watched = Chain(["went"] * 3), Watched()
        entry, *of_stage, _ = chain.said()
        said = [([entry], DUE_MS + 600_000), (of_stage, SAID_MS)]
        for reports, at_ms in said if is_reversed else said[::-1]:
            watched.take(reports, at_ms)
        watched.settle(chain, DUE_MS + 900_000)
        from_ms = watched.observation.checkpoint(DUE_MS + 910_000).from_ms
        watched = watched.again(DUE_MS + 910_000)
        for reports, at_ms in said:
            watched.take(reports if at_ms >= from_ms else [], at_ms)
        assert watched.settle(chain, DUE_MS + 920_000).total("lost") == 0
        watched.take(chain.reports[-1:], DUE_MS + 930_000)
        found = watched.settle(chain, DUE_MS + 940_000)
        assert (found.came, found.went, found.total("lost")) == (3, 3, 0)


def test_tallies_are_needed_from_the_first_word_of_what_is_open_although_its_minute_is_judged() -> None:
    chain, watched = Chain(["went"] * 3), Watched()
    entry, *of_stage, _ = chain.said()
    watched.take([ALIVE], DUE_MS)
    watched.tick(DUE_MS + 1_000)
    assert [*watched.written[MINUTE].lots] == [None]
    watched = watched.again(DUE_MS + 2_000)
    watched.take(of_stage, SAID_MS)
    watched.take([entry], DUE_MS + 3_600_000)
    assert watched.observation.checkpoint(DUE_MS + 3_601_000).from_ms < SAID_MS


def test_what_a_stage_tells_of_after_all_is_not_lost_at_the_next_one_which_had_said_all_before() -> None:
    """The endpoint's node is behind: the minute is still open when a dead letter of the first stage is replayed."""
    second, between = Node("p", NodeKind.stage, "second"), "plays.between"
    way = Way((Hop(ENTRY), Hop(STAGE, "second"), Hop(second, "acme"), Hop(EXPEL)), RAW)
    observed, both, one, other = Observation([way], SETTLE_MS, Sla(1_000)), of([0, 1]), of([0]), of([1])
    observed.begin(MINUTE)

    def say(node: Node, at_ms: int, *tallies: Tally, reads: Sequence[Read] = ()) -> None:
        observed.take(Report(node, node.name, at_ms, 0, tallies, reads), at_ms)

    def tick(at_ms: int, *ends: int) -> MinuteVerdict:
        places = {(topic, 0): end for topic, end in zip((RAW, between, OUT), ends, strict=True)}
        observed.look(at_ms, places, {STAGE: [RAW], second: [between], EXPEL: [OUT]})
        return next(each for each in observed.tick(at_ms + 500, at_ms + 500) if each.minute == MINUTE)

    say(ENTRY, SAID_MS, Tally(minute=MINUTE, came=both, went=both))
    dead = Tally(minute=MINUTE, came=both, went=one, dead=other)
    say(STAGE, SAID_MS, dead, Tally("second", MINUTE, went=one), reads=[Read(RAW, 0, 0, 2)])
    say(second, SAID_MS, Tally(came=one, went=one), Tally("acme", went=one), reads=[Read(between, 0, 0, 1)])
    for node in (ENTRY, second, EXPEL):
        say(node, DUE_MS)
    assert tick(DUE_MS + 1_000, 2, 1, 1).reason == "expel acme is behind: 1 events are open"
    say(STAGE, DUE_MS + 2_000, Tally(minute=MINUTE, went=other), Tally("second", MINUTE, went=other))
    say(EXPEL, DUE_MS + 2_000, Tally(came=one, went=one), reads=[Read(OUT, 0, 0, 1)])
    found = tick(DUE_MS + 3_000, 2, 2, 1)
    assert (found.state, found.reason) == (State.OPEN, "stage second is behind: 1 events are open")
    assert not lost(found)
