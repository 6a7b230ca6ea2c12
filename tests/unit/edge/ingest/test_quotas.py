"""A tenant gets what its rates say, no more over time, and is not refused for ever."""

import pytest

from edge_service.ingest.senders.quotas import Bucket


def test_a_seconds_worth_may_be_sent_at_once_and_then_what_the_rate_allows():
    bucket, sent = Bucket(), 0
    for tick in range(1_000):  # ten seconds
        now = 5.0 + tick / 100
        while not bucket.wait_s(50, now):
            bucket.take(1, 50, now)
            sent += 1
    assert sent == pytest.approx(50 + 10 * 50, abs=2)


def test_one_that_takes_more_than_is_left_waits_until_its_debt_is_paid():
    bucket = Bucket()
    assert bucket.wait_s(10, 0.0) == 0
    bucket.take(60, 10, 0.0)
    assert bucket.wait_s(10, 0.0) == pytest.approx(5.0)
    assert bucket.wait_s(10, 4.0) == pytest.approx(1.0)
    assert bucket.wait_s(10, 5.1) == 0


def test_a_rate_below_one_in_a_second_lets_one_in_now_and_then():
    bucket = Bucket()
    bucket.take(1, 0.1, 0.0)
    assert bucket.wait_s(0.1, 1.0) == 0, "what is left after one of one is paid back at once"
    bucket.take(1, 0.1, 1.0)
    assert bucket.wait_s(0.1, 1.0) == pytest.approx(9.0)


def test_who_may_send_nothing_sends_nothing():
    assert Bucket().wait_s(0, 100.0) > 0
    assert Bucket().wait_s(-5, 100.0) > 0


def test_another_rate_holds_from_now_on():
    bucket = Bucket()
    bucket.take(100, 1, 0.0)
    assert bucket.wait_s(1, 0.0) == pytest.approx(99.0)
    assert bucket.wait_s(1_000, 0.2) == 0
