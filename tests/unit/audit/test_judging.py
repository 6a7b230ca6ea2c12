"""Each event has a fate, its topics show it, and the audit has to find it, whatever the nodes say."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from enrich.audit.evidence import HopEvidence, Mark, WayEvidence
from enrich.audit.judging import Judge
from enrich.tally import MergedTally, Node, NodeKind, Origins
from enrich.verdict.ways import Hop, Way

STAGE, EXPEL = Node("p", NodeKind.stage, "s"), Node("p", NodeKind.expel, "e")
RAW, OWN, OTHER, SDLQ, EDLQ = Mark("raw"), Mark("own"), Mark("other"), Mark("s.dlq"), Mark("e.dlq")
UNREAD, PAUSED = Mark("raw", "enrich.p.s"), Mark("own", "enrich.expel.p.e")
HOPS = [
    HopEvidence(Hop(STAGE, "r"), [OWN], [OTHER], [SDLQ], [UNREAD]),
    HopEvidence(Hop(EXPEL), [], [], [EDLQ], [PAUSED]),
]
EVIDENCE = WayEvidence(Way([hop.hop for hop in HOPS], None), [RAW], HOPS)
MARKS = [*dict.fromkeys(EVIDENCE.marks)]

FATES = {
    "delivered": {RAW, OWN},
    "unread": {RAW, UNREAD},
    "dead at the stage": {RAW, SDLQ},
    "elsewhere": {RAW, OTHER},
    "dropped": {RAW},
    "lost": {RAW},
    "denied": {RAW},
    "denied, and elsewhere": {RAW, OTHER},
    "waiting": {RAW, OWN, PAUSED},
    "dead at the end": {RAW, OWN, EDLQ},
    "of another entry": {OWN},
}


def of(offsets: list[int]) -> Origins:
    return Origins.of_offsets("raw", 0, offsets) if offsets else Origins()


@given(some.lists(some.sampled_from(sorted(FATES)), max_size=60))
def test_each_event_is_where_its_fate_has_put_it(fates: list[str]) -> None:
    marked: dict[int, Origins] = {}
    for offset, fate in enumerate(fates):
        bits = sum(1 << MARKS.index(mark) for mark in FATES[fate])
        marked[bits] = marked.get(bits, Origins()) | of([offset])

    def with_fate(*names: str) -> Origins:
        return of([offset for offset, fate in enumerate(fates) if fate in names])

    claimed = with_fate("denied", "denied, and elsewhere", "delivered")
    claims = {(STAGE, ""): MergedTally(dropped=with_fate("dropped")), (STAGE, "r"): MergedTally(went=claimed)}
    found = Judge(MARKS, claims).judged(EVIDENCE, 7, marked)
    stage, expel = found.hops
    assert found.came == of([*range(len(fates))]) - with_fate("of another entry")
    assert stage.waiting == with_fate("unread")
    assert stage.dead == with_fate("dead at the stage")
    assert stage.elsewhere == with_fate("elsewhere")
    assert stage.dropped == with_fate("dropped")
    assert stage.denied == with_fate("denied", "denied, and elsewhere")
    assert stage.lost == stage.denied | with_fate("lost")
    assert (expel.waiting, expel.dead) == (with_fate("waiting"), with_fate("dead at the end"))
    assert found.went == with_fate("delivered")
    assert found.lost == stage.lost


def test_what_the_receiver_has_not_is_lost_though_it_was_read() -> None:
    marked = {1 << MARKS.index(RAW) | 1 << MARKS.index(OWN): of([1, 2, 3])}
    found = Judge(MARKS, {}, delivered=of([1, 3, 9])).judged(EVIDENCE, 7, marked)
    assert (found.went, found.lost) == (of([1, 3]), of([2]))


def test_a_minute_without_events_has_lost_none() -> None:
    found = Judge(MARKS, {}).judged(EVIDENCE, 7, {})
    assert not found.came
    assert not found.lost


@pytest.mark.parametrize(
    ("named", "more", "says"), [([4], 0, []), ([], 1, []), ([4, 5], 0, ["not: 1 events: raw/0/5"])]
)
def test_differences_from_a_verdict(named: list[int], more: int, says: list[str]) -> None:
    from enrich.audit.comparing import compared
    from enrich.verdict import HopVerdict, MinuteVerdict, State, Up

    bits = 1 << MARKS.index(RAW)
    audited = Judge(MARKS, {}).judged(EVIDENCE, 7, {bits: of([4]), bits | 1 << MARKS.index(OWN): of([5])})
    names = {"lost": [f"raw/0/{offset}" for offset in named]}
    hop = HopVerdict("stage", "s", "r", came=2, went=1, lost=len(named) + more, names=names, more={"lost": more})
    verdict = MinuteVerdict(audited.route, 7, State.SETTLED, Up.DOWN, [hop])
    found = compared(audited, verdict).differences
    assert [difference.partition("what is ")[2] for difference in found] == says
    # Of what is not settled nothing is claimed.
    assert not compared(audited, MinuteVerdict(audited.route, 7, State.OPEN, Up.UNKNOWN, [hop])).differences
