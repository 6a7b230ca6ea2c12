"""Days since 1970 and the years, months and days of the calendar, counted back and forth without an end."""

from typing import Any

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]

_FEBRUARY = 2
_ERA = 146_097
"""Days of 400 years."""
_TO_MARCH_OF_YEAR_0 = 719_468
_LENGTHS = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def exists(year: Whole, month: Whole, day: Whole) -> npt.NDArray[np.bool_]:
    is_leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    is_month = (month >= 1) & (month <= 12)
    last = _LENGTHS[np.where(is_month, month, 0)] - ((month == _FEBRUARY) & ~is_leap)
    return np.asarray(is_month & (day >= 1) & (day <= last), np.bool_)


def days_of(year: Whole, month: Whole, day: Whole) -> Whole:
    # Years begin in March, so that the leap day is the last one.
    shifted = year - (month <= _FEBRUARY)
    in_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + in_year - _TO_MARCH_OF_YEAR_0


def civil_of(days: npt.NDArray[Any]) -> tuple[Whole, Whole, Whole]:
    """Year, month and day."""
    era, in_era = np.divmod(days.astype(np.int64) + _TO_MARCH_OF_YEAR_0, _ERA)
    in_era_years = (in_era - in_era // 1460 + in_era // 36_524 - in_era // (_ERA - 1)) // 365
    in_year = in_era - (365 * in_era_years + in_era_years // 4 - in_era_years // 100)
    since_march = (5 * in_year + 2) // 153
    month = np.where(since_march < 10, since_march + 3, since_march - 9)
    day = in_year - (153 * since_march + 2) // 5 + 1
    return era * 400 + in_era_years + (month <= _FEBRUARY), month, day
