"""What a lane sends, and when, while its endpoint does not work, refuses us, or refuses some events."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from tests.support.edge.lanes import Decide, LaneModel, lane_plan, run_jumping


def model_of(decide: Decide, count: int, *, keeps_order: bool = False, **plan: Any) -> LaneModel:
    """With so many events in one partition, each of a key of its own."""
    model = LaneModel(random.Random(1), decide, lane_plan(**plan), keeps_order, partitions=1)
    for number in range(count):
        model.produce(b"%d" % number, number, 0)
    return model


def after(model: LaneModel, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a lane, and looks at it meanwhile."""

    async def run() -> None:
        await model.start()
        await look()
        await model.stop()

    run_jumping(run(), "lane")


@pytest.mark.parametrize("keeps_order", [False, True])
def test_events_that_an_endpoint_fails_on_keep_no_others_waiting(keeps_order: bool):
    """However many they are: between them it answers others."""
    model = model_of(lambda ids: 503 if ids[0] % 3 == 0 else 200, 0, events=1, tries=5, keeps_order=keeps_order)

    async def look() -> None:
        for number in range(300):
            model.produce(b"%d" % number, number, 0)
            await asyncio.sleep(0.2)
        late = {one for one in range(270) if one % 3} - set(model.came)
        assert not late

    after(model, look)


def test_an_event_that_an_endpoint_wants_again_at_once_and_fails_on_takes_turns_with_others():
    model = model_of(lambda ids: 503 if ids[0] == 0 else 200, 30, events=1, parallel=1)
    model.latencies, model.retry_after = (0.02,), "0"

    async def look() -> None:
        await asyncio.sleep(5)
        assert model.moved == []
        assert model.came == [*range(1, 30)]

    after(model, look)


def test_while_an_endpoint_is_down_it_is_probed_and_what_was_not_tried_yet_waits_for_it():
    well = False
    model = model_of(lambda _: 200 if well else 503, 5_000, events=10, parallel=16)

    async def look() -> None:
        nonlocal well
        await asyncio.sleep(30)
        opened = next(at for number, (at, _) in enumerate(model.requests) if number >= 8)
        probes = [at for at, _ in model.requests if at > opened + 1]
        assert 2 <= len(probes) <= 8
        tried = {one for _, ids in model.requests for one in ids}
        assert set(model.moved) <= tried
        assert len(tried) < 500
        well = True
        before = len(model.requests)
        await asyncio.sleep(35)
        assert set(model.came) == set(range(5_000)) - set(model.moved)
        again = model.requests[before:]
        assert again[1][0] > again[0][0]  # one alone, and the others after its answer

    after(model, look)


def test_what_was_tried_for_as_long_as_the_budget_does_not_pin_the_offset_while_the_endpoint_is_down():
    model = model_of(lambda _: 503, 40, events=1, parallel=4, tries=20, budget_s=3.0)

    async def look() -> None:
        await asyncio.sleep(20)
        tried = {one for at, ids in model.requests for one in ids if at < 15}
        assert set(model.moved) >= tried
        assert model.position() >= len(tried)

    after(model, look)


@pytest.mark.parametrize(("plan", "tries"), [({"tries": 3}, 3), ({"tries": 3, "budget_s": 0.01}, 1)])
def test_an_event_is_tried_as_often_as_said_and_not_beyond_its_budget(plan: dict[str, Any], tries: int):
    model = model_of(lambda _: 503, 1, parallel=1, first_s=0.05, longest_s=0.05, **plan)

    async def look() -> None:
        await asyncio.sleep(0.9)
        assert (len(model.requests), [*model.moved]) == (tries, [0])

    after(model, look)


@pytest.mark.parametrize("parallel", [1, 4, 16])
@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_the_twentieth_refusal_in_a_row_holds_the_route_before_another_is_sent(parallel: int, status: int):
    model = model_of(lambda _: status, 100, events=1, parallel=parallel)

    async def look() -> None:
        await asyncio.sleep(60)
        assert len(model.requests) == 20
        assert model.holds == [f"HTTP {status}, 20 times in a row"]
        assert sum(model.dead.values()) == 20

    after(model, look)


def test_refusals_hold_nothing_while_others_are_taken():
    model = model_of(lambda ids: 404 if ids[0] % 5 else 200, 400, events=1, parallel=16)

    async def look() -> None:
        await asyncio.sleep(60)
        assert Counter(model.came) + model.dead == Counter(range(400))
        assert not model.holds

    after(model, look)


def test_many_requests_go_at_once_to_an_endpoint_that_takes_them():
    model = model_of(lambda _: 200, 60_000, events=1, parallel=64)
    model.latencies = (0.02,)

    async def look() -> None:
        await asyncio.sleep(30)
        assert len(model.came) > 30_000  # twenty at once would be 15,000

    after(model, look)


@pytest.mark.parametrize("refused", [[], [0], [99], [50, 51], [0, 33, 66, 99], list(range(100))])
def test_a_refused_batch_is_halved_until_the_refused_events_are_alone(refused: list[int]):
    model = model_of(lambda ids: 422 if set(ids) & set(refused) else 200, 100, events=100)

    async def look() -> None:
        await asyncio.sleep(60)
        assert Counter(model.came) == Counter(set(range(100)) - set(refused))
        assert model.dead == Counter(refused)
        assert len(model.requests) <= 1 + len(refused) * 14

    after(model, look)


def test_without_split_a_refused_batch_is_dead_and_sent_once():
    model = model_of(lambda _: 422, 10, events=10, split=())

    async def look() -> None:
        await asyncio.sleep(10)
        assert len(model.requests) == 1
        assert model.dead == Counter(range(10))

    after(model, look)


def test_of_a_partition_that_is_lost_both_halves_of_a_batch_are_left_to_whoever_has_it_next():
    model = model_of(lambda ids: 422 if len(ids) > 1 else 503, 0, events=2, tries=1, keeps_order=True)
    model.latencies = (1.0,)
    for number in range(2):
        model.produce(b"k", number, 0)

    async def look() -> None:
        await asyncio.sleep(3)
        assert [ids for _, ids in model.requests] == [[0, 1], [0]]
        model.lose()
        await asyncio.sleep(10)
        assert model.moved == []

    after(model, look)


def test_what_fails_for_the_last_time_after_its_partition_was_given_up_goes_to_no_retry_topic():
    """Whoever has it next sends it, and would write it there too."""
    model = model_of(lambda _: 503, 3, events=3, tries=1)
    model.latencies = (1.0,)

    async def look() -> None:
        await asyncio.sleep(1)
        assert [ids for _, ids in model.requests] == [[0, 1, 2]]
        model.lose()
        await asyncio.sleep(10)
        assert model.moved == []

    after(model, look)


def test_what_fails_after_its_partition_was_given_up_is_left_to_whoever_has_it_next():
    """Although its endpoint is left alone for longer than it may be tried."""
    model = model_of(lambda _: 503, 200, events=1, tries=20, budget_s=5.0)
    model.latencies = (0.5,)

    async def look() -> None:
        await asyncio.sleep(120)
        probes = len(model.requests)
        while len(model.requests) == probes:
            await asyncio.sleep(0.01)
        model.lose()
        moved = model.moved
        await asyncio.sleep(60)
        assert model.moved == moved

    after(model, look)


def test_an_error_of_our_own_stops_the_lane_and_is_not_silent(caplog: pytest.LogCaptureFixture):
    def breaks(ids: Sequence[int]) -> int:
        raise KeyError(ids[0])

    model = model_of(breaks, 10)

    async def look() -> None:
        await asyncio.sleep(1)
        assert "KeyError" in str(model.lane.failure)

    after(model, look)
    assert "a bug in enrich" in caplog.text


def test_an_event_that_no_retry_topic_takes_is_dead_and_keeps_no_later_one_of_its_key_waiting():
    model = model_of(lambda ids: 503 if 0 in ids else 200, 0, keeps_order=True, events=1, tries=1)
    model.too_large = {0}

    async def look() -> None:
        for number in range(10):
            model.produce(b"one key", number, 0)
            await asyncio.sleep(2)
        assert model.dead == Counter([0])
        assert model.came == [*range(1, 10)]
        assert model.moved == []
        totals = model.lane._meter.totals()
        assert totals["dead_letters"] == 1
        assert totals["events_retried_later"] == 0

    after(model, look)


def test_an_event_that_waits_behind_another_of_its_key_and_that_no_retry_topic_takes_counts_as_dead_only():
    model = model_of(lambda ids: 503 if 0 in ids else 200, 0, keeps_order=True, events=1, tries=1)
    model.too_large = {1}

    async def look() -> None:
        model.produce(b"one key", 0, 0)
        await asyncio.sleep(2)
        for number in (1, 2):
            model.produce(b"one key", number, 0)
        await asyncio.sleep(2)
        totals = model.lane._meter.totals()
        assert model.dead == Counter([1])
        assert model.moved == [0, 2]
        assert (totals["events_retried_later"], totals["events_diverted"], totals["dead_letters"]) == (1, 1, 1)

    after(model, look)
