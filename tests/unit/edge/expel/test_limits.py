"""An endpoint gets what it can take: more while it answers well, less when it does not, and never more than allowed."""

import heapq

import pytest

from edge_service.expel.lane.limits import Concurrency, Rate


def simulated(most, capacity, seconds=200.0, base_s=0.05):
    """Requests for ever to an endpoint that works on `capacity` at once. Returns the limits and answers a second."""
    concurrency, now, free = Concurrency(most), 0.0, [0.0] * capacity
    ends: list[tuple[float, float]] = []
    limits, answered = [], 0
    while now < seconds:
        while concurrency.has_room:
            concurrency.begin()
            begin = max(now, heapq.heappop(free))
            heapq.heappush(free, begin + base_s)
            heapq.heappush(ends, (begin + base_s, now))
        end, began = heapq.heappop(ends)
        now = end
        concurrency.end(end - began, now, is_good=True)
        answered += 1
        limits.append(concurrency.limit)
    return limits, answered / seconds


def test_a_quick_endpoint_gets_all_that_is_allowed():
    limits, per_s = simulated(64, 1000)
    assert sum(limit == 64 for limit in limits) > 0.8 * len(limits)
    assert per_s > 1000


@pytest.mark.parametrize("capacity", [1, 4, 16])
def test_an_endpoint_that_works_on_few_at_once_is_used_whole_and_not_drowned(capacity):
    limits, per_s = simulated(64, capacity)
    late = limits[len(limits) // 2 :]
    assert max(late) <= max(5, 4 * capacity)
    assert per_s > 0.85 * capacity / 0.05


def test_trouble_of_requests_that_were_under_way_together_counts_once():
    concurrency = Concurrency(100)
    for now in range(2000):
        while concurrency.has_room:
            concurrency.begin()
        concurrency.end(0.01, float(now), is_good=True)
    before = concurrency.limit
    for _ in range(20):
        concurrency.end(5.0, 3000.0, is_good=False)
    assert before * 0.6 < concurrency.limit < before * 0.8
    for now in range(4000, 4100):
        concurrency.begin()
        concurrency.end(0.1, float(now), is_good=False)
    assert concurrency.limit == 1
    assert concurrency.has_room is (concurrency.under_way < 1)


def test_a_rate_is_kept_over_any_second():
    rate, now, sent = Rate(50), 0.0, []
    while now < 20:
        now += rate.wait_s(now)
        rate.sent(now)
        sent.append(now)
        if len(sent) % 100 == 0:
            now += 1.0  # nothing to send for a while: no more than the burst is saved up
    for first in range(len(sent)):
        within = sum(1 for at in sent[first : first + 100] if at < sent[first] + 1)
        assert within <= 50 + 5 + 1
    assert Rate(None).wait_s(0) == 0
