"""Versions and times of records from the change log only rise."""

import numpy as np

from stores.external.postgres.log.messages import Transactions
from sync_service.sources.logged.headers import Stamps, newest_version


def transactions(*pairs: tuple[int, int]) -> Transactions:
    commit, time_ms = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    return Transactions(np.arange(len(pairs)), commit, time_ms * 1000)


def test_a_version_is_the_place_of_the_commit() -> None:
    version, time_ms = Stamps(5, 50).given(transactions((100, 60), (180, 70)), now_ms=1_000)
    assert (version.tolist(), time_ms.tolist()) == ([100, 180], [60, 70])


def test_after_a_comparison_it_is_more_until_the_log_has_caught_up() -> None:
    version, _ = Stamps(200, 0).given(transactions((100, 1), (180, 2), (201, 3), (500, 4)), now_ms=1_000)
    assert version.tolist() == [201, 202, 203, 500]


def test_a_time_never_goes_back_and_is_not_in_the_future() -> None:
    _, time_ms = Stamps(0, 50).given(transactions((1, 40), (2, 70), (3, 60), (4, 9_000)), now_ms=1_000)
    assert time_ms.tolist() == [50, 70, 70, 1_000]


def test_the_newest_version_of_records_is_one_that_targets_take() -> None:
    contents = [b"7", b"12", None, b"", b"-90", b"1e9", b"9" * 18, b"9" * 5_000]
    assert newest_version([[], *([("enrich.xid", b"99"), ("enrich.version", content)] for content in contents)]) == 12
    assert newest_version([]) == 0
