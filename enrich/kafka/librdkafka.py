"""librdkafka's own functions, where the Python client lacks one or makes an object of each record."""

import ctypes
from collections.abc import Mapping
from typing import Any

from confluent_kafka import cimpl

POINTER, TEXT, INT, SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t

Functions = Mapping[str, tuple[Any, list[Any]]]
"""By name, without `rd_kafka_`: what each returns, and takes."""


class Library:
    """librdkafka, as the Python client has loaded it. Its functions are attributes."""

    def __init__(self, functions: Functions) -> None:
        """Raises OSError or AttributeError if it is not the library that this was written for."""
        self._loaded = ctypes.CDLL(cimpl.__file__)
        for name, (result, arguments) in functions.items():
            function = self._function(name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def address(self, name: str) -> int:
        """Of a function, for compiled loops."""
        return int(ctypes.cast(self._function(name), POINTER).value or 0)

    def _function(self, name: str) -> Any:
        return getattr(self._loaded, f"rd_kafka_{name}")
