"""What became of each event of a batch, once all steps are done."""

import numpy as np

from enrich.stage.steps.leaving.whole import forwarded
from enrich.stage.steps.step import Columns
from enrich.stage.task.columns import FAILED, FATE, OUTPUT, ROUTED, USABLE
from enrich.stage.task.fate import Fate, Mask


def fates_of(columns: Columns) -> tuple[Mask, Mask]:
    """Which events are dropped, and which are dead. The others are written."""
    left = forwarded(columns)
    usable = np.asarray(columns[USABLE].to_numpy(zero_copy_only=False), np.bool_)
    dropped = usable & (columns[FATE].to_numpy() == Fate.DROP) if FATE in columns else np.zeros(len(usable), np.bool_)
    if ROUTED in columns:
        routed = columns[ROUTED].to_numpy()
        dropped = dropped | (left & (routed == Fate.DROP))
        return dropped, ~dropped & ~(left & (routed == Fate.FORWARD))
    whole = left & ~np.asarray(columns[OUTPUT].is_null().to_numpy(zero_copy_only=False), np.bool_)
    if FAILED in columns:
        whole = whole & ~np.asarray(columns[FAILED].to_numpy(zero_copy_only=False), np.bool_)
    return dropped, ~dropped & ~whole
