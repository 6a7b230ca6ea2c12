"""Where an event goes, and which events of a batch are meant."""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
"""True for the events of a batch that are meant."""


class Fate(IntEnum):
    """Where an event goes. The numbers stand in columns between Python and the JVM."""

    FORWARD = 0
    DROP = 1
    DLQ = 2
