"""Reports survive their bytes, whatever is in them; bytes that are none are refused; adding them up has no order."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enrich.base.errors import BadRecord
from enrich.tally import Merged, Node, NodeKind, Origins, Report, Tally, decoded, encoded
from enrich.tally.wire import Written
from tests.support.observe.tallies import reports
from tests.support.seed import rounds

NODE = Node("plays", NodeKind.expel, "acme")


def merged(some: "list[Report]") -> Merged:
    whole = Merged()
    for report in some:
        whole.take(report)
    return whole


def with_own_ids(some: "list[Report]") -> "list[Report]":
    return [
        Report(each.node, each.reporter, number, each.at_ms, each.tallies, each.reads)
        for number, each in enumerate(some)
    ]


@given(reports)
def test_a_report_is_what_its_bytes_say(report):
    assert [decoded(content) for content in encoded(report)] == [report]


@given(st.lists(reports, max_size=6).map(with_own_ids), st.randoms(use_true_random=False))
def test_neither_order_nor_repeats_change_what_reports_say_together(some, random_source):
    expected = merged(some)
    again = [*some, *random_source.choices(some, k=5)] if some else []
    random_source.shuffle(again)
    assert merged(again) == expected


@given(st.lists(reports, max_size=6).map(with_own_ids))
def test_together_they_say_what_plain_sets_and_sums_do(some):
    whole = merged(some)
    for (node, route, minute), tally in whole.by_key.items():
        mine = [
            each
            for report in some
            if report.node == node
            for each in report.tallies
            if (each.route, each.minute) == (route, minute)
        ]
        assert set(tally.went.ranges()) == set(union([each.went for each in mine]).ranges())
        assert tally.lag.went.count == sum(each.lag.went.count for each in mine)


def union(some: "list[Origins]") -> Origins:
    return Origins.of_ranges(one for each in some for one in each.ranges())


@given(st.lists(reports, min_size=1, max_size=2).map(with_own_ids), st.sampled_from([1, 200, 400]))
@settings(max_examples=rounds(15, 500))
def test_the_parts_of_a_long_report_say_what_the_whole_would(some, most):
    parts = [decoded(content) for report in some for content in encoded(report, most)]
    assert merged(parts) == merged(some)


def test_a_set_that_is_too_long_for_a_record_is_divided():
    source = random.Random(7)
    offsets = [source.randrange(10**9) for _ in range(100_000)]
    went = Origins.of_offsets("plays.raw", 3, offsets) | Origins.of_offsets("plays.raw", 4, [1, 2, 5])
    report = Report(NODE, "r", 1, 2, [Tally(came=went, went=went)])
    parts = encoded(report, 50_000)
    assert len(parts) > 5
    assert max(map(len, parts)) <= 50_000
    assert merged([decoded(part) for part in parts]) == merged([report])


def test_who_has_heard_the_first_parts_of_a_report_does_not_take_events_for_those_of_no_route():
    """The observer may look between two of its records."""
    stage, source = Node("plays", NodeKind.stage, "prepare"), random.Random(7)
    routes = [Origins.of_offsets("plays.raw", 0, source.sample(range(10**6), 3_000)) for _ in range(2)]
    both = routes[0] | routes[1]
    said = [Tally("", 5, came=both, went=both), *(Tally(f"r{n}", 5, went=some) for n, some in enumerate(routes))]
    parts = [decoded(content) for content in encoded(Report(stage, "r", 1, 2, said), 5_000)]
    assert len(parts) > 5
    for count in range(len(parts) + 1):
        heard = merged(parts[:count])
        assert not heard.of(stage).went - heard.of(stage, "r0").went - heard.of(stage, "r1").went


def test_a_batch_that_is_told_again_with_other_lags_changes_nothing():
    from enrich.tally.lags import Lags

    def told(went_ms: int) -> Report:
        lags = Lags.of([0, 1], [5, 5], went_ms)
        tallies = [Tally(minute=minute, lag=lag) for minute, lag in lags.by_minute.items()]
        return Report(NODE, "checkpoint", 17, went_ms, tallies)

    whole = merged([told(10), told(5_000)])
    assert whole.of(NODE).lag == told(10).tallies[0].lag


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content):
    try:
        decoded(content)
    except BadRecord as error:
        assert "byte" in error.what


@given(reports, st.data())
def test_bytes_that_were_cut_are_refused(report, data):
    content = encoded(report)[0]
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    with pytest.raises(BadRecord, match="byte"):
        decoded(cut)
    with pytest.raises(BadRecord, match="follow its end"):
        decoded(content + b"\0")


@settings(max_examples=rounds(300, 20_000))
@given(reports, st.data())
def test_bytes_that_were_changed_are_read_or_refused(report, data):
    content = bytearray(encoded(report)[0])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decoded(bytes(content))
    except BadRecord:
        return
    merged([found])
    encoded(found)


def test_a_few_bytes_cannot_ask_for_all_memory():
    out = Written()
    out.byte(0x54)
    out.byte(1)
    out.text("plays")
    out.byte(3)
    out.text("acme")
    out.text("r")
    for number in (1, 1, 1):  # sequence, time, topics
        out.number(number)
    out.text("t")
    out.number(0)
    out.number(1)
    out.byte(0)
    out.text("")
    for number in (1, 0, 0):  # came: a place, topic 0, partition 0
        out.number(number)
    out.byte(0)
    out.number(0)
    out.number(2**62)  # a range without end
    for _ in range(4):
        out.number(0)
    with pytest.raises(BadRecord, match="ranges are longer"):
        decoded(bytes(out.content))


def test_a_newer_version_is_named():
    with pytest.raises(BadRecord, match="version is 9"):
        decoded(b"\x54\x09")
