"""Whatever an endpoint says and whenever instances end: each event is delivered or dead, and keys keep their order."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from tests.support.edge.lanes import LaneModel, lane_plan, run_jumping
from tests.support.seed import SEED, rounds, variants

KEYS, EVENTS = 6, 120


def is_poison(one: int) -> bool:
    return one % 37 == 5


def key_of(one: int) -> int:
    return one * 7919 % KEYS


class Endpoint:
    """Refuses some events for good, and all of some keys for a while."""

    def __init__(self, chance: random.Random, *, loses_answers: bool) -> None:
        self._chance = chance
        self._loses_answers = loses_answers
        self._sick = {key for key in range(KEYS) if chance.random() < 0.4}
        self._asked = 0

    def __call__(self, ids: Sequence[int]) -> int | None:
        self._asked += 1
        if self._sick and self._asked % 40 == 0:
            self._sick.pop()
        if any(map(is_poison, ids)):
            return 422
        if any(key_of(one) in self._sick for one in ids) or self._chance.random() < 0.1:
            return 503
        return None if self._loses_answers and self._chance.random() < 0.05 else 200


async def deliver(chance: random.Random, *, keeps_order: bool, kills: bool, loses: float = 0.0) -> LaneModel:
    """Events come, and instances follow each other, until all is settled."""
    plan = lane_plan(events=chance.choice([1, 3, 8]), parallel=chance.choice([1, 4, 16]), tries=chance.choice([1, 2]))
    model = LaneModel(chance, Endpoint(chance, loses_answers=kills), plan, keeps_order, loses=loses)
    loop = asyncio.get_running_loop()
    await model.start()
    produced = 0
    while produced < EVENTS or not model.is_done:
        assert loop.time() < 3600, "something is never settled"
        for _ in range(min(chance.choice([0, 0, 1, 10]), EVENTS - produced)):
            model.produce(b"%d" % key_of(produced), produced, key_of(produced) % model.partitions)
            produced += 1
        await asyncio.sleep(chance.choice([0.0, 0.02, 0.3]))
        model.forward(loop.time())
        if chance.random() < 0.2:
            model.commit()
        if chance.random() < 0.03:
            await (model.kill() if kills and chance.random() < 0.7 else model.stop())
            model.forward(loop.time())
            await model.start()
    return model


def run(number: int, *, keeps_order: bool, kills: bool, loses: float = 0.0) -> LaneModel:
    chance = random.Random(f"{SEED}/{number}")
    return run_jumping(deliver(chance, keeps_order=keeps_order, kills=kills, loses=loses), f"{SEED}/{number}")


def all_rounds(check: Callable[[int], None]) -> None:
    for number in range(rounds(12, 2_000)):
        try:
            check(number)
        except BaseException:
            print(f"round {number} of seed {SEED}")  # noqa: T201 - the way to run it again
            raise


@pytest.mark.parametrize("keeps_order", [False, True])
def test_without_a_kill_each_event_is_taken_once_or_is_dead(keeps_order: bool) -> None:
    def check(number: int) -> None:
        model = run(number, keeps_order=keeps_order, kills=False)
        assert Counter(model.came) + model.dead == Counter(range(EVENTS))

    all_rounds(check)


@pytest.mark.parametrize("keeps_order", [False, True])
def test_instances_that_are_killed_lose_nothing(keeps_order: bool) -> None:
    def check(number: int) -> None:
        model = run(number, keeps_order=keeps_order, kills=True)
        assert set(model.came) | set(model.dead) == set(range(EVENTS))

    all_rounds(check)


@pytest.mark.parametrize("kills", [False, True])
def test_the_events_of_a_key_are_first_taken_or_dead_in_their_order(kills: bool) -> None:
    def check(number: int) -> None:
        model = run(number, keeps_order=True, kills=kills)
        for key in range(KEYS):
            first = list(dict.fromkeys(one for one in model.over if key_of(one) == key))
            assert first == sorted(first)

    all_rounds(check)


@pytest.mark.parametrize("kills", variants(False, True))
def test_events_that_are_lost_while_they_wait_keep_no_others_of_their_key_waiting(kills: bool) -> None:
    def check(number: int) -> None:
        model = run(number, keeps_order=True, kills=kills, loses=0.2)
        assert set(model.came) | set(model.dead) | model.lost == set(range(EVENTS))
        over = list(dict.fromkeys(model.over))
        for key in range(KEYS):
            # After a kill one that was lost may be read once more from where it stood first, late.
            first = [one for one in over if key_of(one) == key and one not in model.lost]
            assert first == sorted(first)

    all_rounds(check)
