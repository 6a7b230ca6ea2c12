"""Compiled loops between librdkafka's messages and columns. Compiled when they are first called; they run without the
GIL.

The offsets are those of `rd_kafka_message_t` and `rd_kafka_vu_t`, which are part of librdkafka's public interface.
"""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.errors import NumbaWarning

from enrich.kafka.columnar.calls import (
    byte,
    call1,
    call2,
    call3,
    code2,
    code5,
    copy,
    half,
    put_half,
    put_word,
    word,
)

_F = TypeVar("_F", bound=Callable[..., Any])

# rd_kafka_message_t
_ERROR, _TOPIC, _PARTITION, _VALUE, _VALUE_SIZE, _KEY, _KEY_SIZE, _OFFSET = 0, 8, 16, 24, 32, 40, 48, 56
# rd_kafka_vu_t: a type, and at 8 its values
_PART = 72
_OF_TOPIC, _OF_VALUE, _OF_KEY, _OF_FLAGS, _OF_HEADERS = 2, 4, 5, 7, 10
_COPIED = 2

NO_VALUE = -1


def _compiled(function: _F) -> _F:
    try:
        made: Any = numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # there is no writable directory for the code
        warnings.warn("compiled code cannot be kept: set NUMBA_CACHE_DIR", NumbaWarning, stacklevel=2)
        made = numba.njit(nogil=True, error_model="numpy")(function)
    return cast(_F, made)


@_compiled
def _length(text: Any) -> Any:
    end = text
    while byte(end) != 0:
        end += 1
    return end - text


@_compiled
def measure(
    messages: Any,
    time_of: Any,
    headers_of: Any,
    header_at: Any,
    room: Any,
    numbers: Any,
    sizes: Any,
    first_error: Any,
) -> Any:
    """Fills `numbers` (partition, offset, time, topic) and `sizes` (key, value, how many headers) of each message.
    Returns the bytes of all keys, values, headers' names and their values, and the number of headers. `room`: 32 bytes
    for what the functions answer."""
    keys = values = names = contents = count = 0
    for at in range(len(messages)):
        message = messages[at]
        if half(message + _ERROR) != 0:
            if first_error[0] == 0:
                first_error[0] = half(message + _ERROR)
            continue
        numbers[0, at] = half(message + _PARTITION)
        numbers[1, at] = word(message + _OFFSET)
        numbers[2, at] = call2(time_of, message, room)
        numbers[3, at] = word(message + _TOPIC)
        sizes[0, at] = sizes[1, at] = NO_VALUE
        if word(message + _KEY) != 0:
            sizes[0, at] = word(message + _KEY_SIZE)
            keys += sizes[0, at]
        if word(message + _VALUE) != 0:
            sizes[1, at] = word(message + _VALUE_SIZE)
            values += sizes[1, at]
        own = 0
        if code2(headers_of, message, room) == 0:
            headers = word(room)
            while code5(header_at, headers, own, room + 8, room + 16, room + 24) == 0:
                names += _length(word(room + 8))
                contents += word(room + 24) if word(room + 16) != 0 else 0
                own += 1
        sizes[2, at] = own
        count += own
    return keys, values, names, contents, count


@_compiled
def find_ends(messages: Any, codes: Any, numbers: Any) -> None:
    """Fills `codes` (errors) and `numbers` (partition, offset, topic) of each message."""
    for at in range(len(messages)):
        codes[at] = half(messages[at] + _ERROR)
        numbers[0, at] = half(messages[at] + _PARTITION)
        numbers[1, at] = word(messages[at] + _OFFSET)
        numbers[2, at] = word(messages[at] + _TOPIC)


@_compiled
def gather(
    messages: Any,
    headers_of: Any,
    header_at: Any,
    destroy: Any,
    room: Any,
    sizes: Any,
    key_ends: Any,
    keys: Any,
    value_ends: Any,
    values: Any,
    name_ends: Any,
    names: Any,
    content_ends: Any,
    contents: Any,
    has_content: Any,
) -> None:
    """Copies all that `measure` has measured, and ends the messages. The ends begin with a zero."""
    for at in range(len(messages)):
        message = messages[at]
        size = max(0, sizes[0, at])
        copy(keys + key_ends[at], word(message + _KEY), size)
        key_ends[at + 1] = key_ends[at] + size
        size = max(0, sizes[1, at])
        copy(values + value_ends[at], word(message + _VALUE), size)
        value_ends[at + 1] = value_ends[at] + size
    header = 0
    for at in range(len(messages)):
        message = messages[at]
        if sizes[2, at] > 0 and code2(headers_of, message, room) == 0:
            headers = word(room)
            for own in range(sizes[2, at]):
                code5(header_at, headers, own, room + 8, room + 16, room + 24)
                size = _length(word(room + 8))
                copy(names + name_ends[header], word(room + 8), size)
                name_ends[header + 1] = name_ends[header] + size
                has_content[header] = word(room + 16) != 0
                size = word(room + 24) if has_content[header] else 0
                copy(contents + content_ends[header], word(room + 16), size)
                content_ends[header + 1] = content_ends[header] + size
                header += 1
    end(messages, destroy)


@_compiled
def end(messages: Any, destroy: Any) -> None:
    """Messages that are not needed any more."""
    for at in range(len(messages)):
        call1(destroy, messages[at])


@_compiled
def produce(
    begin: Any,
    producer: Any,
    functions: Any,
    parts: Any,
    topics: Any,
    key_ends: Any,
    keys: Any,
    has_key: Any,
    value_ends: Any,
    values: Any,
    has_value: Any,
    header_ends: Any,
    name_ends: Any,
    names: Any,
    content_ends: Any,
    contents: Any,
    has_content: Any,
) -> Any:
    """Queues the records from `begin` on. Returns the first that could not be queued, and the address of the error; the
    number of all, and 0. `functions`: produceva, headers_new, header_add, headers_destroy. `parts`: room for six parts
    of a record."""
    for at in range(begin, len(topics)):
        part = parts
        put_half(part, _OF_TOPIC)
        put_word(part + 8, topics[at])
        part += _PART
        put_half(part, _OF_FLAGS)
        put_half(part + 8, _COPIED)
        part += _PART
        if has_value[at]:
            put_half(part, _OF_VALUE)
            put_word(part + 8, values + value_ends[at])
            put_word(part + 16, value_ends[at + 1] - value_ends[at])
            part += _PART
        if has_key[at]:
            put_half(part, _OF_KEY)
            put_word(part + 8, keys + key_ends[at])
            put_word(part + 16, key_ends[at + 1] - key_ends[at])
            part += _PART
        headers = 0
        if header_ends[at + 1] > header_ends[at]:
            headers = call1(functions[1], header_ends[at + 1] - header_ends[at])
            for header in range(header_ends[at], header_ends[at + 1]):
                size, content = 0, 0
                if has_content[header]:
                    size = content_ends[header + 1] - content_ends[header]
                    content = contents + content_ends[header]
                name = names + name_ends[header]
                code5(functions[2], headers, name, name_ends[header + 1] - name_ends[header], content, size)
            put_half(part, _OF_HEADERS)
            put_word(part + 8, headers)
            part += _PART
        error = call3(functions[0], producer, parts, (part - parts) // _PART)
        if error != 0:
            if headers != 0:
                call1(functions[3], headers)
            return at, error
    return len(topics), 0
