"""Guesses what a column of text holds: the narrowest type that all its values can be read as, and written as again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from enrich.config import parse_columns
from stores.external.files.formats import as_wanted

TEXT = "string"
# A number with zeros before it is text: as a number it would lose them. So is one with more digits than a double holds.
_SCALES = range(2, 7)
_NUMBERS = {
    "boolean": r"^(true|false|True|False|TRUE|FALSE)$",
    "bigint": r"^(0|-?[1-9][0-9]{0,18})$",
    # The same number of digits in every row, two or more: a price, which a double would not hold exactly.
    **{f"decimal(18,{scale})": rf"^-?(0|[1-9][0-9]{{0,11}})\.[0-9]{{{scale}}}$" for scale in _SCALES},
    "double": r"^-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,3})?$",
}
_TIME = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
_TIMES = {
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "timestamp": rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_TIME}$",
}
_NETWORK = r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]*)/[0-9]{1,3}$"
CSV_TYPES = (*_NUMBERS, *_TIMES)
JSON_TYPES = tuple(_TIMES)
"""Of texts in JSON, which is no text where it means a number."""
# What values in topics may have: docs/formats.md.
_FIRST_YEAR, _LAST_YEAR = 1, 9999
_PATTERNS = _NUMBERS | _TIMES


@dataclass
class Guess:
    """What a column may be, after all values that it was shown."""

    possible: Sequence[str] = CSV_TYPES
    has_values: bool = field(default=False, init=False)
    _only_networks: bool = field(default=True, init=False)

    def see(self, values: pa.StringArray) -> None:
        if values.null_count == len(values):
            return
        self.has_values = True
        self.possible = [kind for kind in self.possible if _all_fit(kind, values)]
        self._only_networks = self._only_networks and _match(values, _NETWORK)

    @property
    def type(self) -> str:
        return self.possible[0] if self.has_values and self.possible else TEXT

    @property
    def are_networks(self) -> bool:
        """Such as 10.0.0.0/8, in which addresses are to be found."""
        return self.has_values and self._only_networks


def _all_fit(kind: str, values: pa.StringArray) -> bool:
    """Whether `enrich table load` would take them all. The pattern alone takes a 31st of February."""
    if not _match(values, _PATTERNS[kind]):
        return False
    schema = parse_columns(f"value {kind}").arrow
    try:
        read = as_wanted(pa.record_batch([values], names=["value"]), schema).column(0)
    except pa.ArrowInvalid:
        return False
    if kind in _TIMES:
        years = pc.min_max(pc.year(read))
        return bool(years["min"].as_py() >= _FIRST_YEAR and years["max"].as_py() <= _LAST_YEAR)
    return kind != "double" or bool(pc.all(pc.is_finite(read)).as_py())


def _match(values: pa.StringArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py())
