"""Verdicts beside a plain model of a chain: what is lost is named, and nothing else ever is."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from enrich.tally import Merged, Node, NodeKind, Origins, Report, Tally
from enrich.tally.origins import Read
from observe_service.verdicts.judging import Now, State, Verdict, judged
from observe_service.verdicts.reached import Reached
from observe_service.verdicts.ways import Hop, Way

ENTRY, STAGE = Node("p", NodeKind.ingest, "plays"), Node("p", NodeKind.stage, "prepare")
EXPEL = Node("p", NodeKind.expel, "acme")
WAY = Way((Hop(ENTRY), Hop(STAGE, "acme"), Hop(EXPEL)), "plays.raw")
MINUTE, SETTLE_MS = 100, 60_000
DUE_MS = (MINUTE + 1) * 60_000 + SETTLE_MS
RAW, OUT = "plays.raw", "plays.acme"


def of(offsets: Iterable[int]) -> Origins:
    return Origins.of_offsets(RAW, 0, sorted(offsets)) if (offsets := list(offsets)) else Origins()


@dataclass
class Chain:
    """Events are offsets of one partition. Each has a fate; those that a node loses it says nothing of."""

    fates: list[str]
    reports: list[Report] = field(default_factory=list)

    def having(self, *fates: str) -> list[int]:
        return [offset for offset, fate in enumerate(self.fates) if fate in fates]

    def told(self) -> None:
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

    def say(self, node: Node, *tallies: Tally, reads: Iterable[Read] = ()) -> None:
        for number, tally in enumerate(tallies):
            own = tuple(reads) if not number else ()
            self.reports.append(Report(node, node.name, len(self.reports), DUE_MS, (tally,), own))

    def ends(self) -> dict[tuple[str, int], int]:
        taken = self.having("went", "dead", "waiting", "lost later")
        return {(RAW, 0): len(self.fates), (OUT, 0): len(taken)}


def verdict(chain: Chain, reports: Iterable[Report], at_ms: int = DUE_MS + 1, until: int = DUE_MS) -> Verdict:
    merged, reached = Merged(), Reached()
    for node, topic in ((STAGE, RAW), (EXPEL, OUT)):
        reached.look(node, [topic], until, chain.ends())
    for report in reports:
        merged.take(report)
    now = Now(at_ms, {node: reached.until_ms(node, merged) for node in (STAGE, EXPEL)}, SETTLE_MS)
    return judged(WAY, MINUTE, merged, now)


fates = st.lists(
    st.sampled_from(["went", "dead", "waiting", "lost", "lost later", "elsewhere", "dropped"]), min_size=1, max_size=40
)


@given(fates, st.randoms(use_true_random=False))
def test_what_is_lost_is_named_and_all_else_has_its_count(fates: list[str], source: Random) -> None:
    chain = Chain(fates)
    chain.told()
    again = [*chain.reports, *source.sample(chain.reports, source.randrange(len(chain.reports)))]
    source.shuffle(again)
    found = verdict(chain, again)
    assert found.state == State.SETTLED, found.reason
    assert found.lost == of(chain.having("lost", "lost later"))
    entry, stage, expel = found.at
    assert (len(entry.given), len(entry.went)) == (len(fates), len(fates))
    assert stage.missing == of(chain.having("lost"))
    assert (stage.dropped, stage.elsewhere) == (of(chain.having("dropped")), of(chain.having("elsewhere")))
    assert expel.missing == of(chain.having("lost later"))
    assert (expel.dead, expel.waiting) == (of(chain.having("dead")), of(chain.having("waiting")))


@given(fates, st.randoms(use_true_random=False), st.integers(0, 5))
def test_before_all_is_said_nothing_is_named_that_is_not_lost(fates: list[str], source: Random, heard: int) -> None:
    chain = Chain(fates)
    chain.told()
    found = verdict(chain, source.sample(chain.reports, min(heard, len(chain.reports))))
    assert len(found.lost - of(chain.having("lost", "lost later"))) == 0


def test_a_minute_is_open_until_it_is_due_and_as_long_as_a_node_that_speaks_is_behind() -> None:
    chain = Chain(["went", "lost"])
    chain.told()
    assert verdict(chain, chain.reports, at_ms=DUE_MS - 1).state == State.OPEN
    # The stage has read what there was before the minute was due: more may have been written since.
    behind = verdict(chain, chain.reports, until=DUE_MS - 1)
    assert (behind.state, behind.reason) == (State.OPEN, "stage prepare is behind: 1 events are open")
    assert len(behind.lost) == 0


def test_silence_is_unknown_and_never_a_loss() -> None:
    chain = Chain(["went", "lost"])
    chain.told()
    silent = verdict(chain, chain.reports[:1], at_ms=DUE_MS + 100_000)
    assert (silent.state, silent.reason) == (State.UNKNOWN, "stage prepare is silent: 2 events are open")
    assert len(silent.lost) == 0


def test_what_stays_in_a_hole_of_what_a_node_has_read_is_no_loss() -> None:
    chain = Chain(["went"] * 4 + ["lost"] * 2 + ["went"] * 4)
    chain.told()
    torn = [Read(RAW, 0, 0, 4), Read(RAW, 0, 6, 10)]
    with_hole = [replace(each, reads=torn) if each.node == STAGE and each.reads else each for each in chain.reports]
    found = verdict(chain, with_hole)
    assert (len(found.lost), found.state) == (0, State.OPEN)
    assert len(verdict(chain, chain.reports).lost) == 2, "the test shows nothing"


def test_what_a_killed_ingest_could_not_say_is_known_from_the_stage_behind_it() -> None:
    chain = Chain(["went", "lost", "went"])
    chain.told()
    told = Tally(minute=MINUTE, came=of([0, 1]), went=of([0, 1]))
    killed = [replace(chain.reports[0], tallies=(told,)), *chain.reports[1:]]
    found = verdict(chain, killed)
    assert (found.state, found.lost) == (State.SETTLED, of([1]))
    assert [len(each.given) for each in found.at] == [3, 3, 2]
