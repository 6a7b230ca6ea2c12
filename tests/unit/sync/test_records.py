"""From records to rows: one a key, the newest; what cannot be a row is named with its reason."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from sync_service.reconcile.digests import bucket_sums, digests_of, hashes_of
from sync_service.reconcile.stamps import stamps_of
from sync_service.writeback.records import _newest

_RECORDS = st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 2), st.booleans())


@example(records=[("a", 1, 0, False), ("a", 1, 2, False), ("a", 1, 1, False)], has_releases=True)
@given(st.lists(_RECORDS, max_size=30), st.booleans())
def test_the_newest_of_each_key_is_what_taking_one_after_the_other_leaves(
    records: list[tuple[str, int, int, bool]], has_releases: bool
) -> None:
    left: dict[str, tuple[int, int, int]] = {}
    for index, (key, version, release, is_bad) in enumerate(records):
        order = version, release if has_releases else 0
        if not is_bad and (key not in left or order > left[key][:2]):
            left[key] = (*order, index)
    keys = pa.array([key.encode() for key, _, _, _ in records], pa.binary())
    versions, releases = (np.array([each[place] for each in records], np.int64) for place in (1, 2))
    wrong = [index for index, (_, _, _, is_bad) in enumerate(records) if is_bad]
    found = _newest(keys, versions, wrong, releases if has_releases else None)
    assert found.tolist() == sorted(index for _, _, index in left.values())


def test_sums_of_buckets_do_not_depend_on_order_and_see_every_change() -> None:
    rows: list[Any] = [(b"k%d" % n, (n, n % 3), (b"plan", None if n % 2 else b"%d" % n)) for n in range(1_000)]

    def sums(given: list[Any]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        keys, versions, texts = zip(*given, strict=True)
        return bucket_sums(hashes_of(keys), stamps_of(*zip(*versions, strict=True)), digests_of(texts))

    before = sums(rows)
    shuffled = random.Random(1).sample(rows, len(rows))
    assert (sums(shuffled) == before).all()
    for change in (
        (b"k7", (7, 1), (b"plan", b"")),
        (b"k7", (8, 1), (b"plan", None)),
        (b"k7", (7, 0), (b"plan", None)),
        (b"k7", (7, 2), (b"plan", None)),
        (b"k7", (1, 7), (b"plan", None)),
        (b"k7x", (7, 1), (b"plan", None)),
        (b"k7", (7, 1), (b"", b"plan")),
    ):
        assert (sums([change if key == b"k7" else (key, *rest) for key, *rest in rows]) != before).any()
