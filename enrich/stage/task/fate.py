"""Where an event goes, and masks over a batch of events."""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
"""True for the selected events of a batch."""


class Fate(IntEnum):
    """Where an event goes. The numbers are in columns that pass between Python and the JVM."""

    FORWARD = 0
    DROP = 1
    DLQ = 2
