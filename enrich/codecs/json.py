"""JSON values to typed rows: a missing field is null, an extra one ignored, a wrong type makes the value bad."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from enrich.codecs.strict import converter
from stores.protocol import Decoded


class JsonDecoder:
    """Decodes a batch of JSON objects into rows of the given columns."""

    def __init__(self, columns: pa.Schema) -> None:
        self._type = pa.struct(list(columns))
        self._convert: Callable[[Any], Any] = converter(self._type)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        rows: list[Any] = []
        bad: dict[int, str] = {}
        for index, value in enumerate(values.to_pylist()):
            row = None
            if value is not None:
                try:
                    row = self._convert(_object(value))
                except ValueError as error:  # JSON and UTF-8 errors are ValueErrors too
                    bad[index] = str(error)
            rows.append(row)
        return Decoded(pa.array(rows, self._type), bad)


def _object(value: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(parsed, dict):
        raise ValueError(f"expected a JSON object, got {type(parsed).__name__}")
    return parsed
