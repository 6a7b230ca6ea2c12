"""Producers that can do nothing any more: librdkafka's own way to test this, which its Python client does not have."""

import ctypes
from pathlib import Path

from confluent_kafka import KafkaError, Producer

_HANDLE_AT = 16
"""Bytes of a Python object before the first field of its own, which is librdkafka's handle."""


def make_fatal(producer: Producer) -> None:
    """As after an answer of a broker that an idempotent producer cannot get over."""
    library = ctypes.CDLL(_library())
    name, fail = library.rd_kafka_name, library.rd_kafka_test_fatal_error
    handle = ctypes.c_void_p.from_address(id(producer) + _HANDLE_AT)
    name.restype = ctypes.c_char_p
    assert b"producer" in name(handle)
    fail(handle, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, b"for a test")


def _library() -> str:
    """The one that is loaded."""
    mapped = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "librdkafka" in line)
    return next(mapped)
