"""Decodes many JSON values at once with Arrow's parser: all of them or none, and never more lenient than `StrictJson`.

Arrow reads one text of many objects. Its rows are those of the values, whatever the values contain, because
- each value starts with `{` and ends with `}`, and they are joined by newlines: between two values is `}\\n{`;
- inside a string a newline is an error; inside an object or array `{` after `}` is one. So a value that parses has
  closed all it opened, and each value makes one row or more;
- there are as many rows as values. So each value made exactly one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from enrich.codecs.json.shape import depths
from enrich.codecs.json.values import converter
from enrich.codecs.rows import extents, has_forbidden_null, valid_text
from stores.json_text import has_decimal, tiny_exponents

# Python's parser stops at about 1,000 open brackets, Arrow's does not.
_DEEP = 300

# How most of Arrow's messages end. It only says where to look first: a wrong number costs time, not a row.
_ROW = re.compile(r"in row (\d{1,9})\Z")


@dataclass(frozen=True, slots=True)
class Doubt:
    """The strict parser must decide about at least one of the values, probably the one at `index`."""

    index: int | None = None


class _DoubtfulError(Exception):
    pass


class FastJson:
    def __init__(self, kind: pa.StructType) -> None:
        self._kind = kind
        self._schema = pa.schema([(field.name, _as_parsed(field.type)) for field in kind])
        self._parse = arrow_json.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore")

    @staticmethod
    def can_read(kind: pa.StructType) -> bool:
        """Whether Arrow's parser can read all types of the columns. It cannot read an object as a map."""
        try:
            for field in kind:
                _as_parsed(field.type)
        except _DoubtfulError:
            return False
        return True

    def rows(self, values: pa.BinaryArray) -> pa.StructArray | Doubt:
        """All values as rows, or Doubt about one of them. The values must be `plausible`."""
        text = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")[0]
        buffer = text.as_buffer()
        read = arrow_json.ReadOptions(use_threads=False, block_size=max(buffer.size + 1, 16))
        try:
            table = arrow_json.read_json(pa.BufferReader(buffer), read_options=read, parse_options=self._parse)
            if len(table) != len(values):
                return Doubt()
            columns = [_from_parsed(table.column(i).combine_chunks(), field.type) for i, field in enumerate(self._kind)]
        except _DoubtfulError:
            return Doubt()
        except pa.ArrowException as error:  # its message quotes values: it must not be passed on
            found = _ROW.search(str(error))
            return Doubt(min(int(found[1]), len(values) - 1) if found else None)
        if not columns:  # only whether they can be read
            return pa.StructArray.from_buffers(self._kind, len(values), [None])
        rows = pa.StructArray.from_arrays(columns, fields=list(self._kind))
        return Doubt() if has_forbidden_null(rows, pa.field("", self._kind)) else rows


def plausible(values: pa.BinaryArray, kind: pa.StructType) -> npt.NDArray[np.bool_]:
    """Which values may go to Arrow's parser: those that stay separate rows, without what it accepts too leniently, or
    ends the process at."""
    data, starts, ends = extents(values)
    good = ends - starts >= 2
    first, last = np.where(good, starts, 0), np.where(good, ends - 1, 0)
    if not len(data):
        return good
    good &= (data[first] == ord("{")) & (data[last] == ord("}"))
    begin, end = int(starts[0]), int(ends[-1])
    content = data[begin:end]
    # A zero byte ends the text for Arrow. Other control characters are space or an error in both parsers.
    positions = np.flatnonzero(content == 0)
    good[np.searchsorted(starts, begin + positions, "right") - 1] = False
    good &= valid_text(values)
    for word in (b"NaN", b"Inf"):  # Arrow accepts `Inf`, which neither JSON nor Python's parser does
        good[np.searchsorted(starts, begin + _positions(content, word), "right") - 1] = False
    if has_decimal(kind):
        good[np.searchsorted(starts, begin + tiny_exponents(content), "right") - 1] = False
    if (ends - starts).max(initial=0) > _DEEP:
        # Five times as fast as Arrow's count_substring (measured).
        brackets = np.flatnonzero((content == ord("[")) | (content == ord("{")))
        many = good & (np.diff(np.searchsorted(brackets, [starts - begin, ends - begin]), axis=0)[0] > _DEEP)
        if many.any():
            good[many] = depths(values.filter(pa.array(many))) <= _DEEP
    return good


def _positions(content: npt.NDArray[np.uint8], word: bytes) -> npt.NDArray[np.intp]:
    """Where the word occurs: five times as fast as bytes.find (measured)."""
    positions = np.flatnonzero(content[: len(content) - len(word) + 1] == word[0])
    for step, byte in enumerate(word[1:], 1):
        positions = positions[content[positions + step] == byte]
    return positions


def _as_parsed(kind: pa.DataType) -> pa.DataType:
    """The type to ask Arrow's parser for: JSON's own if it would read the column's too leniently or imprecisely."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _as_parsed(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_as_parsed(kind.value_type))
    if pa.types.is_floating(kind):
        return pa.float64()  # rounded to 64 bits and then to the column's type, as the strict parser does
    if pa.types.is_binary(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return kind
    if pa.types.is_decimal128(kind):
        # Arrow compares the digits of the text with the precision, not those of the number: it accepts 1000 as
        # decimal(5,2). In 256 bits even 38 digits and 38 more zeros do not overflow, and the cast back checks.
        return pa.decimal256(38, kind.scale)
    raise _DoubtfulError


def _from_parsed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Converts what was parsed as `_as_parsed` to the column's type."""
    if pa.types.is_struct(kind):
        children = [_from_parsed(values.field(i), kind.field(i).type) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())
    if pa.types.is_list(kind):
        items = _from_parsed(values.values, kind.value_type)
        mask = values.is_null() if values.null_count else None
        return pa.ListArray.from_arrays(values.offsets, items, type=kind, mask=mask)
    if pa.types.is_floating(kind):
        return _floating(values, kind)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _time(values, kind)
    if pa.types.is_decimal(kind):
        return values.cast(kind)
    if pa.types.is_binary(kind):
        return _one_by_one(values, kind)
    return values


def _floating(values: pa.Array, kind: pa.DataType) -> pa.Array:
    values = pc.add(values, 0.0).cast(kind, safe=False)  # -0.0 + 0.0 is 0.0: JSON has one zero
    if pc.all(pc.is_finite(values)).as_py() is False:
        raise _DoubtfulError
    return values


def _time(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    try:
        times = texts.cast(kind)
    except pa.ArrowInvalid:  # Arrow knows fewer forms of ISO 8601, and needs offsets in all texts or none
        return _one_by_one(texts, kind)
    try:  # Arrow has a year 0 and Python has not; and an offset may lead out of range.
        pc.min_max(times).as_py()
    except (ValueError, OverflowError):
        raise _DoubtfulError from None
    return times


def _one_by_one(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    convert: Callable[[object], object] = converter(kind)
    try:
        return pa.array([convert(text) for text in texts.to_pylist()], kind)
    except (ValueError, OverflowError) as error:
        raise _DoubtfulError from error
