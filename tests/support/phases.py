"""What a table says of a life: which phase comes next."""

from collections.abc import Mapping
from typing import Any, TypeVar

_Phase = TypeVar("_Phase")


def reachable(following: Mapping[tuple[_Phase, Any], _Phase], first: _Phase) -> set[_Phase]:
    """By a mapping of a phase, and what happens in it, to the next one. With the first."""
    found, left = {first}, [first]
    while left:
        state = left.pop()
        new = {after for (before, _), after in following.items() if before == state} - found
        found |= new
        left += new
    return found
