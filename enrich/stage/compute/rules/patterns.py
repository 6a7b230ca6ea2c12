"""Patterns of `to_timestamp` and `to_date` as regular expressions: those that Java reads without a choice."""

import re
from itertools import pairwise

_PIECES = re.compile(r"yyyy|MM|dd|HH|mm|ss|\.S{1,9}|XXX|'[TZ]'|[-/:.,_ ]")
_REGEX = {
    "yyyy": "(?P<sign>[+-]?)(?P<year>[0-9]{4,19})",
    "MM": "(?P<month>[0-9]{2})",
    "dd": "(?P<day>[0-9]{2})",
    "HH": "(?P<hour>[0-9]{2})",
    "mm": "(?P<minute>[0-9]{2})",
    "ss": "(?P<second>[0-9]{2})",
    "XXX": "(?:[Zz]|(?P<offset_sign>[+-])(?P<offset_hour>[0-9]{2}):(?P<offset_minute>[0-9]{2}))",
    "'T'": "[Tt]",
    "'Z'": "[Zz]",
}
_DAY, _TIME = ["MM", "dd", "yyyy"], ["HH", "mm", "ss"]


def pattern_regex(pattern: str) -> str | None:
    """None for a pattern with other parts, without a whole date, or with two numbers and nothing between them."""
    pieces = _PIECES.findall(pattern)
    numbers = [piece for piece in pieces if piece in _DAY or piece in _TIME]
    day, time = sorted(numbers[:3]), numbers[3:]
    if "".join(pieces) != pattern or day != _DAY or time != _TIME[: len(time)] or pieces.count("XXX") > 1:
        return None
    if any(left in numbers and right in numbers for left, right in pairwise(pieces)):
        return None
    # A part of a second only behind the seconds, an offset only at the end.
    if any(piece.startswith(".S") and pieces[at - 1] != "ss" for at, piece in enumerate(pieces)):
        return None
    if "XXX" in pieces[:-1]:
        return None
    return "^" + "".join(map(_regex, pieces)) + "$"


def _regex(piece: str) -> str:
    if piece.startswith(".S"):
        return rf"\.(?P<fraction>[0-9]{{1,{len(piece) - 1}}})"
    return _REGEX.get(piece) or re.escape(piece)
