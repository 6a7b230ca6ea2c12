from hypothesis import given
from hypothesis import strategies as st

from enrich.host.claims.completeness import Completeness, Ends
from enrich.host.claims.moments import Moment
from enrich.host.claims.notes import complete_note, complete_of

SOON = 1_000


def at(ms: int) -> Moment:
    return Moment(ms, ms)


def test_nothing_is_known_before_an_answer_is_reached():
    table = Completeness()
    assert table.published({0: 5}, at(0), SOON) is None
    table.asked(Ends(at(100), {0: 10, 1: 0}))
    assert table.published({0: 9}, at(110), SOON) is None
    assert table.behind({0: 9}) == 1
    assert table.published({0: 10}, at(120), SOON) == at(100)


def test_a_table_that_is_always_a_little_behind_is_still_complete_through_a_moment_not_long_ago():
    table = Completeness()
    for moment in range(1, 50):
        table.asked(Ends(at(moment * 200), {0: moment * 10}))
        through = table.published({0: moment * 10 - 1}, at(moment * 200), SOON)
        assert moment < 3 or (through is not None and through.wall_ms >= (moment - 2) * 200)


def test_an_empty_topic_is_complete_at_once():
    table = Completeness()
    table.asked(Ends(at(100), {0: 0}))
    assert table.published({}, at(100), SOON) == at(100)


def test_a_partition_that_was_added_has_to_be_reached_too():
    table = Completeness()
    table.asked(Ends(at(100), {0: 1}))
    assert table.published({0: 1}, at(100), SOON) == at(100)
    table.asked(Ends(at(200), {0: 1, 1: 1}))
    assert table.published({0: 1}, at(200), SOON) == at(100)
    assert table.proven(1) == at(100)  # when it was not there yet
    assert table.published({0: 1, 1: 1}, at(200), SOON) == at(200)


def test_an_end_that_is_reached_so_late_that_records_may_have_been_removed_proves_nothing():
    table = Completeness(since=at(10))
    table.asked(Ends(at(100), {0: 5, 1: 5}))
    assert table.published({0: 5}, at(200), SOON) is None
    assert table.published({0: 5, 1: 5}, at(101 + SOON), SOON) is None
    assert (table.proven(0), table.proven(1), table.since) == (at(100), at(10), at(10))
    table.asked(Ends(at(1200), {0: 5, 1: 5}))
    assert table.published({0: 5, 1: 5}, at(1200), SOON) == at(1200)


def test_an_end_that_is_reached_at_the_very_moment_when_records_may_be_removed_proves_nothing():
    table = Completeness(since=at(10))
    table.asked(Ends(at(100), {0: 5}))
    assert table.published({0: 5}, at(100 + SOON), SOON) is None
    assert not table.is_at_end(0, 5, at(100 + SOON), SOON)


def test_an_end_that_brokers_lose_before_it_is_reached_holds_nothing_up():
    table = Completeness()
    table.asked(Ends(at(100), {0: 10}))
    table.asked(Ends(at(300), {0: 12}))
    table.asked(Ends(at(500), {0: 9}))
    assert table.published({0: 8}, at(500), SOON) is None
    assert table.published({0: 9}, at(600), SOON) == at(500)
    assert table.behind({0: 9}) == 0


def test_what_a_former_agent_has_proven_makes_nobody_ready():
    table = Completeness(since=at(100))
    assert (table.complete_through, table.since, table.proven(3)) == (None, at(100), at(100))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60))
def test_it_never_claims_what_is_not_published_and_never_goes_back(events):
    table = Completeness()
    written = position = last = 0
    written_at = [0]  # index: moment -> how much was written by then
    for moment, (is_write, count) in enumerate(events, start=1):
        if is_write:
            written += count
        else:
            position = min(written, position + count)
        written_at.append(written)
        table.asked(Ends(at(moment), {0: written}))
        proven = table.published({0: position}, at(moment), SOON)
        through = 0 if proven is None else proven.wall_ms
        assert written_at[through] <= position
        assert through >= last
        last = through


def test_a_clock_that_is_set_back_takes_moments_back_with_it_and_one_that_goes_forward_does_not():
    then = Moment(wall_ms=10_000_000, steady_ms=500_000)
    assert then.on_clock_of(Moment(10_000_200, 500_200)) == 10_000_000
    assert then.on_clock_of(Moment(10_000_200 - 3_600_000, 500_200)) == 10_000_000 - 3_600_000
    assert then.on_clock_of(Moment(10_000_200 + 3_600_000, 500_200)) == 10_000_000
    assert then.on_clock_of(Moment(10_000_199, 500_201)) == 10_000_000  # read one after the other


def test_a_time_between_two_moments_is_never_taken_for_shorter_than_either_clock_says():
    then = Moment(10_000_000, 500_000)
    assert then.until(Moment(10_000_200 - 3_600_000, 500_200)) == 200
    assert then.until(Moment(10_000_200 + 3_600_000, 500_200)) == 3_600_200


def test_what_a_former_agent_has_proven_is_known_whatever_was_done_to_the_clock_meanwhile():
    then = Moment(10_000_000, 500_000)
    notes, back = complete_note(then), Moment(9_000_000, 800_000)
    assert complete_of(notes, then.wall_ms, back) == then
    # After another start of the system only the clock can tell, and what is still to come nobody believes.
    assert complete_of({}, then.wall_ms, back) is None
    assert complete_of({}, then.wall_ms, Moment(10_000_500, 700)) == Moment(10_000_000, 200)
    assert complete_of(notes, None, back) == then
