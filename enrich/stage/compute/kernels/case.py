"""`lower` and `upper` as ICU does them for Spark: full mappings of Unicode 17, without a language.

Polars has these mappings. It differs in one rule only, that of the Greek sigma, which is another letter at a word's
end: there it takes some newer letters and marks for none. Python has the rule with the letters of Unicode 14.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.values import Kernel, on_columns
from enrich.stage.compute.nodes import Call

_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = "\u03a3", "\u03c3", "\u03c2"
_LETTER, _IGNORED, _OTHER = range(3)
_CHANGED = {
    _LETTER: "1c89-1c8a a7cb-a7cf a7d2 a7d4 a7da-a7dc 10d50-10d65 10d70-10d85 16ea0-16eb8 16ebb-16ed3 1df25-1df2a",
    _IGNORED: "897 ece 1acf-1add 1ae0-1aeb a7f1 10d4e 10d69-10d6d 10d6f 10ec5 10efa-10eff 11241 113bb-113c0 113ce "
    "113d0 113d2 113e1-113e2 11b60 11b62-11b64 11b66 11dd9 11f00-11f01 11f36-11f3a 11f40 11f42 11f5a 13439-13440 "
    "13447-13455 1611e-16129 1612d-1612f 16d40-16d42 16d6b-16d6c 16ff2-16ff3 1e030-1e06d 1e08f 1e4eb-1e4ef "
    "1e5ee-1e5ef 1e6e3 1e6e6 1e6ee-1e6ef 1e6f5 1e6ff",
    _OTHER: "295 1171e",
}
"""What changed after Unicode 14, by code points: found by asking ICU for all of them."""


def _ranges() -> dict[int, int]:
    found = {}
    for kind, texts in _CHANGED.items():
        for text in texts.split():
            first, _, last = text.partition("-")
            found.update(dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), kind))
    return found


_KINDS = _ranges()


def _lower(_: Call, values: list[pa.Array]) -> pa.Array:
    column = values[0]
    if _is_ascii(column):
        return pc.ascii_lower(column)
    has_sigma = pc.fill_null(pc.match_substring(column, _SIGMA), False)
    if pc.any(has_sigma).as_py():
        # No other mapping looks at the letters around: with the small sigmas in place, the rest is as without any.
        chosen = [_with_small_sigmas(text) for text in column.filter(has_sigma).to_pylist()]
        column = pc.replace_with_mask(column, has_sigma, pa.array(chosen, pa.string()))
    return _by_polars(column, lambda texts: texts.str.to_lowercase())


def _upper(_: Call, values: list[pa.Array]) -> pa.Array:
    column = values[0]
    return pc.ascii_upper(column) if _is_ascii(column) else _by_polars(column, lambda texts: texts.str.to_uppercase())


def _is_ascii(column: pa.StringArray) -> bool:
    return pc.all(pc.string_is_ascii(column)).as_py() is not False


def _by_polars(column: pa.StringArray, change: Callable[[pl.Series], pl.Series]) -> pa.StringArray:
    # Polars also reads what stands below a null, and panics if that is no text.
    changed = change(pl.Series("", pc.fill_null(column, ""))).to_arrow().cast(pa.string())
    return pc.if_else(column.is_valid(), changed, pa.scalar(None, pa.string())) if column.null_count else changed


def _with_small_sigmas(text: str) -> str:
    letters = list(text)
    for match in re.finditer(_SIGMA, text):
        at = match.start()
        before, after = range(at - 1, -1, -1), range(at + 1, len(text))
        is_last = _meets_letter(text, before) and not _meets_letter(text, after)
        letters[at] = _FINAL_SIGMA if is_last else _SMALL_SIGMA
    return "".join(letters)


def _meets_letter(text: str, places: range) -> bool:
    kinds = (_kind(text[place]) for place in places)
    return next((kind for kind in kinds if kind != _IGNORED), _OTHER) == _LETTER


@lru_cache(maxsize=10_000)
def _kind(character: str) -> int:
    if ord(character) in _KINDS:
        return _KINDS[ord(character)]
    # Python has no name for these properties, but its own rule for sigma shows them.
    if (character + _SIGMA).lower().endswith(_FINAL_SIGMA):
        return _LETTER
    return _IGNORED if ("a" + character + _SIGMA).lower().endswith(_FINAL_SIGMA) else _OTHER


CASE: Mapping[str, Kernel] = {"lower": on_columns(_lower), "upper": on_columns(_upper)}
