"""The judgement of the other tests here can fail, and tells what is allowed from what is not."""

from tests.chaos.edge.ingest.judgement import late_ones, needless_copies

_DEADLINE_S = 1.0


def _needless(times, refused):
    return needless_copies({7: times}, {7: 10.0}, dict(enumerate(refused)), _DEADLINE_S)


def test_an_event_that_is_there_twice_is_wrong_when_nothing_timed_out():
    assert _needless([10.1, 10.5], []) == {7: [10.1, 10.5]}


def test_an_event_that_is_there_once_is_right_whatever_timed_out():
    assert _needless([10.1], []) == _needless([10.1], [9.4]) == {}


def test_a_second_copy_is_right_once_another_request_has_timed_out():
    assert _needless([10.1, 10.5], [9.4]) == {}


def test_a_second_copy_is_wrong_before_another_request_has_timed_out():
    assert _needless([10.1, 10.5], [9.8]) == {7: [10.1, 10.5]}


def test_a_request_that_timed_out_long_before_excuses_nothing():
    assert _needless([10.1, 10.5], [3.0, 30.0]) == {7: [10.1, 10.5]}


def test_a_copy_long_after_the_deadline_is_wrong_also_of_an_event_that_was_there_in_time():
    late = late_ones({7: [10.1], 8: [10.1, 12.5]}, {7: 10.0, 8: 10.0}, _DEADLINE_S)
    assert late == {8: 2.5}


def test_only_what_was_sent_before_a_broker_went_on_may_be_late_and_only_just_after_it():
    began = {7: 10.0, 8: 20.5, 9: 10.0}
    late = late_ones({7: [20.1], 8: [23.0], 9: [25.0]}, began, _DEADLINE_S, thaws=[20.0])
    assert late == {8: 2.5, 9: 15.0}
