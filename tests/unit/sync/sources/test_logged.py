"""Which transactions a snapshot sees, and how far the log is in the topic."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from stores.external.postgres.log.literals import Kind, json_of
from stores.external.postgres.log.slots import Storage
from stores.external.postgres.log.visibility import Visibility
from sync_service.sources.logged.followed.table import Followed, TableRows
from sync_service.sources.logged.place import TableState

WRAP = 1 << 32


@given(
    some.integers(1, 5 * WRAP),
    some.lists(some.integers(0, 200), unique=True, max_size=20),
    some.lists(some.integers(-500, 500), max_size=50),
)
def test_a_snapshot_sees_what_had_ended_before_it(newest: int, running: list[int], asked: list[int]) -> None:
    """Whole ids have 64 bits, those of the log 32: also where these begin again at 0."""
    newest += 1_000
    ids = sorted(newest - 1 - back for back in running)
    oldest = ids[0] if ids else newest
    snapshot = Visibility(f"{oldest}:{newest}:{','.join(map(str, ids))}")
    whole = [newest + far for far in asked]
    seen = snapshot.sees(np.array([each % WRAP for each in whole], np.int64))
    assert seen.tolist() == [each < newest and each not in ids for each in whole]


def test_what_a_comparison_saw_is_forgotten_once_the_log_is_past_it() -> None:
    state = TableState(shape="shape", seen="10:12:", seen_until=200)
    xids = np.array([9, 11, 12])
    assert state.has(xids, 100).tolist() == [True, True, False]
    assert state.passed(199).has(xids, 199).tolist() == [True, True, False]
    assert not state.has(xids, 200).any()
    assert state.passed(200) == TableState(shape="shape")


def test_what_an_earlier_release_noted_of_a_table_is_completed_and_compared_only_if_something_changes() -> None:
    followed = Followed("t", "t.rows", TableRows(1, "t", ("id",), None, frozenset()), TableState(1, shape="shape"))
    followed.look("shape", Storage("parts", "files"))
    assert (followed.state.is_followed, followed.state.storage) == (True, Storage("parts", "files"))
    followed.state = replace(followed.state, storage=["parts", "files"])  # as JSON has it
    followed.look("shape", Storage("parts", "files"))
    assert followed.state.is_followed
    followed.look("shape", Storage("parts", "others"))
    assert not followed.state.is_followed


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("{1,NULL,3}", Kind(1007, Kind(23)), "[1,null,3]"),
        (r'{"a,b","q\"",NULL,"NULL"}', Kind(1009, Kind(25)), r'["a,b","q\"",null,"NULL"]'),
        ("[0:1]={5,6}", Kind(1007, Kind(23)), "[5,6]"),
        ('(1,"a ""b"" (c)",)', Kind(1, fields=(("n", Kind(23)), ("t", Kind(25)), ("x", Kind(25)))), None),
    ],
)
def test_texts_of_nested_values(text: str, kind: Kind, expected: str | None) -> None:
    assert json_of(text, kind) == (expected or '{"n":1,"t":"a \\"b\\" (c)","x":null}')
