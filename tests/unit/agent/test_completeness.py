from hypothesis import given
from hypothesis import strategies as st

from enrich.agent.completeness import Completeness, Ends


def test_nothing_is_known_before_an_answer_is_reached():
    table = Completeness()
    assert table.published({0: 5}) is None
    table.asked(Ends(100, {0: 10, 1: 0}))
    assert table.published({0: 9}) is None
    assert table.behind({0: 9}) == 1
    assert table.published({0: 10}) == 100


def test_a_table_that_is_always_a_little_behind_is_still_complete_through_a_moment_not_long_ago():
    table = Completeness()
    for moment in range(1, 50):
        table.asked(Ends(moment * 200, {0: moment * 10}))
        through = table.published({0: moment * 10 - 1})
        assert moment < 3 or (through or 0) >= (moment - 2) * 200


def test_an_empty_topic_is_complete_at_once():
    table = Completeness()
    table.asked(Ends(100, {0: 0}))
    assert table.published({}) == 100


def test_a_partition_that_was_added_has_to_be_reached_too():
    table = Completeness()
    table.asked(Ends(100, {0: 1}))
    assert table.published({0: 1}) == 100
    table.asked(Ends(200, {0: 1, 1: 1}))
    assert table.published({0: 1}) == 100
    assert table.published({0: 1, 1: 1}) == 200


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
        table.asked(Ends(moment, {0: written}))
        through = table.published({0: position}) or 0
        assert written_at[through] <= position
        assert through >= last
        last = through
