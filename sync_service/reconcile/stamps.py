"""Version and release of a row, as one value: what rows are ordered by. Arrays of them are used like arrays of
numbers."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

STAMP = np.dtype([("version", np.int64), ("release", np.int64)])

Stamp = tuple[int, int]
Stamps = npt.NDArray[np.void]
Integers = npt.NDArray[np.int64]

NONE: Stamp = (-1, 0)
"""The row has no version."""
ABSENT: Stamp = (-2, 0)
"""There is no row."""


def stamps_of(versions: Sequence[int | None] | Integers, releases: Sequence[int] | Integers = ()) -> Stamps:
    """`releases`: empty if all are 0. Without a version it is NONE."""
    made = np.zeros(len(versions), STAMP)
    if isinstance(versions, np.ndarray):
        made["version"] = versions
    else:
        made["version"] = [NONE[0] if version is None else version for version in versions]
    if len(releases):
        made["release"] = releases
    return made


def filled(count: int, stamp: Stamp) -> Stamps:
    made = np.empty(count, STAMP)
    made[:] = stamp
    return made


def has_version(stamps: Stamps) -> npt.NDArray[np.bool_]:
    there: npt.NDArray[np.bool_] = stamps["version"] != NONE[0]
    return there


def without_releases(stamps: Stamps, chosen: npt.NDArray[np.bool_]) -> Stamps:
    """Those chosen are of release 0."""
    made = stamps.copy()
    made["release"][chosen] = 0
    return made
