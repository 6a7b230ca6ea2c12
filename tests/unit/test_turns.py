"""Which long tests a run leaves to others."""

import ast
import random
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.support.turns import RECORD, TURNS, left_to_others, recorded

ROOMS = st.dictionaries(st.sampled_from(["a", "a/b", "c"]), st.lists(st.integers(3, 300), min_size=1, max_size=12))


def named(rooms: dict[str, list[int]]) -> dict[str, int]:
    return {f"{room}/test_{n % 2}.py::test_{n}": seconds for room in rooms for n, seconds in enumerate(rooms[room])}


@given(ROOMS, st.integers(0, 10**6))
def test_some_seeds_in_a_row_take_each_long_test_once_and_each_takes_some_of_each_room(rooms, seed) -> None:
    seconds = named(rooms)
    taken = [seconds.keys() - left_to_others(seconds, seconds, seed + turn) for turn in range(TURNS)]
    for room, long in rooms.items():
        of_room = [{name for name in some if name.rpartition("/")[0] == room} for some in taken]
        assert all(of_room)
        assert set.union(*of_room) == named({room: long}).keys()
        if len(long) >= TURNS:
            assert sum(map(len, of_room)) == len(long)


@given(ROOMS, st.integers(0, 10**6), st.randoms())
def test_all_workers_of_a_run_leave_the_same(rooms, seed, order: random.Random) -> None:
    seconds = named(rooms)
    shuffled = order.sample([*seconds], len(seconds))
    assert left_to_others(shuffled, seconds, seed) == left_to_others(seconds, seconds, seed)


def test_shares_of_a_room_take_about_the_same_time() -> None:
    seconds = named({"room": [*range(3, 60)]})
    for seed in range(TURNS):
        left = left_to_others(seconds, seconds, seed)
        share = sum(seconds[name] for name in seconds.keys() - left)
        assert abs(share - sum(seconds.values()) / TURNS) < 60


def test_parameters_of_a_long_test_have_turns_of_their_own_and_a_short_test_runs_always() -> None:
    nodes = [f"room/test_it.py::test_long[{n}]" for n in range(TURNS)]
    left = left_to_others([*nodes, "room/test_it.py::test_short"], {"room/test_it.py::test_long": 9}, seed=0)
    assert len(left) == TURNS - 1
    assert left < set(nodes)


def test_what_is_recorded_as_long_is_there() -> None:
    """Else it was renamed, and would run always."""

    @cache
    def functions(path: str) -> set[str]:
        tree = ast.parse((RECORD.parents[1] / path).read_text(encoding="utf-8"))
        return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

    names = [name.split("::") for name in recorded()]
    assert names
    assert [name for name in names if name[-1] not in functions(name[0])] == []
