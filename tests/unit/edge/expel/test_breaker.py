"""An endpoint that fails is left alone, and gets one request at a time until it answers."""

from edge_service.expel.lane.breaker import Breaker, State
from enrich.base.backoff import Backoff


def opened(at=100.0):
    breaker = Breaker(3, Backoff(1.0, 8.0, lambda: 1.0))
    for _ in range(3):
        assert breaker.wait_s(at) == 0
        breaker.sent(at)
        breaker.failed(at)
    return breaker


def test_it_opens_after_failures_in_a_row_only():
    breaker = Breaker(3, Backoff(1.0, 8.0, lambda: 1.0))
    for _ in range(10):
        breaker.failed(0)
        breaker.failed(0)
        breaker.succeeded()
    assert breaker.state == State.CLOSED
    assert opened().state == State.OPEN
    assert opened().wait_s(100.25) == 0.75


def test_one_probe_at_a_time_decides():
    breaker = opened()
    assert breaker.wait_s(101.0) == 0
    breaker.sent(101.0)
    assert breaker.state == State.PROBING
    assert breaker.wait_s(101.0) > 0
    breaker.failed(101.5)
    assert (breaker.state, breaker.wait_s(101.5)) == (State.OPEN, 2.0)
    breaker.sent(103.5)
    breaker.succeeded()
    assert (breaker.state, breaker.wait_s(103.5)) == (State.CLOSED, 0)


def test_pauses_grow_to_a_longest_and_begin_anew_after_an_answer():
    breaker, now, pauses = opened(0.0), 0.0, []
    for _ in range(5):
        pauses.append(breaker.wait_s(now))
        now += pauses[-1]
        breaker.sent(now)
        breaker.failed(now)
    assert pauses == [1, 2, 4, 8, 8]
    now += breaker.wait_s(now)
    breaker.sent(now)
    breaker.succeeded()
    for _ in range(3):
        breaker.failed(now)
    assert breaker.wait_s(now) == 1


def test_answers_that_were_under_way_when_it_opened_change_nothing():
    breaker = opened()
    breaker.failed(100.2)
    breaker.succeeded()
    assert (breaker.state, breaker.wait_s(100.5)) == (State.OPEN, 0.5)
