"""Functions over Arrow columns with the answers of Spark's functions, and the table of all of them. They know no tree
and no Spark: whoever calls them has checked the types.
"""

from collections.abc import Mapping

from enrich.stage.compute.kernels.arithmetic import ARITHMETIC
from enrich.stage.compute.kernels.calendar import CALENDAR
from enrich.stage.compute.kernels.case import CASE
from enrich.stage.compute.kernels.casts import CASTS
from enrich.stage.compute.kernels.comparing import COMPARISONS
from enrich.stage.compute.kernels.decimals import DECIMALS
from enrich.stage.compute.kernels.lists import LISTS
from enrich.stage.compute.kernels.logic import LOGIC
from enrich.stage.compute.kernels.reading import READING
from enrich.stage.compute.kernels.text import TEXT
from enrich.stage.compute.kernels.times import TIMES
from enrich.stage.compute.kernels.values import Kernel

KERNELS: Mapping[str, Kernel] = {
    **LOGIC,
    **COMPARISONS,
    **TEXT,
    **CASE,
    **CASTS,
    **READING,
    **ARITHMETIC,
    **DECIMALS,
    **TIMES,
    **CALENDAR,
    **LISTS,
}

__all__ = ["KERNELS"]
