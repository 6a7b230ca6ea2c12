"""Which transactions a snapshot can see: the log must not repeat them, and must not leave out any other."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stores.external.postgres.log.messages import Numbers


@dataclass(frozen=True, slots=True)
class Visibility:
    """A `pg_snapshot`: `xmin:xmax:xip,xip,...`.

    Where a commit is in the log says nothing about what a snapshot sees: a transaction is written to the log first,
    and becomes visible a moment later.
    """

    text: str

    def sees(self, xids: Numbers) -> npt.NDArray[np.bool_]:
        """`xids`: as the log has them, of 32 bits."""
        low, high, running = self.text.split(":")
        xmin, xmax = int(low), int(high)
        # The snapshot counts with 64 bits. Both are at most 2^31 apart.
        near = (xids - xmax) & 0xFFFFFFFF
        whole = xmax + np.where(near >= 1 << 31, near - (1 << 32), near)
        is_running = np.isin(whole, np.array([int(each) for each in running.split(",") if each], np.int64))
        return (whole < xmin) | ((whole < xmax) & ~is_running)
