"""Whatever answers where a program's page should be, whoever asks is told what it is, and soon."""

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest

from enrich.service.asking import status_at
from tests.support.servers.scripted_endpoint import (
    ScriptedEndpoint,
    answers,
    closes,
    hangs,
    sends,
    sends_endlessly,
    sends_slowly,
)

_HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
_OTHERS: Sequence[tuple[Any, str]] = [
    (answers(200, b'{"pipeline": "another"}'), "of the pipeline 'another'"),
    (answers(200, b"[" * 200_000), "no status"),
    (answers(200, b"<html>"), "no status"),
    (answers(404), "HTTP 404"),
    (sends_endlessly(_HEAD, b" " * 100_000, 0.0), "does not end"),
    (sends_slowly([_HEAD, *[b" "] * 100], 0.1), "does not end"),
    (sends_slowly([b"HTTP/1.1 200 OK\r\nx-more: ", *[b"x"] * 150], 0.1), "does not end"),
    (sends(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"pipeline": "plays"}'), "not whole"),
    (sends(b"SSH-2.0-something\r\n"), "not HTTP"),
]


def _place(endpoint: ScriptedEndpoint) -> str:
    return urlsplit(endpoint.url()).netloc


@pytest.mark.parametrize(("step", "says"), _OTHERS)
def test_another_program_is_not_taken_for_ours(step: Any, says: str) -> None:
    with ScriptedEndpoint(step) as endpoint:
        began = time.monotonic()
        with pytest.raises(ValueError, match=says):
            status_at(_place(endpoint), "plays", 1.0, 10_000_000)
        assert time.monotonic() - began < 10


def test_one_that_says_nothing_does_not_answer() -> None:
    with ScriptedEndpoint(hangs) as endpoint, pytest.raises(TimeoutError):
        status_at(_place(endpoint), "plays", 0.5)


def test_one_that_hangs_up_does_not_answer() -> None:
    with ScriptedEndpoint(closes) as endpoint, pytest.raises(ConnectionError):
        status_at(_place(endpoint), "plays", 1.0)


def test_the_status_of_ours_is_returned() -> None:
    with ScriptedEndpoint(answers(200, b'{"pipeline": "plays", "routes": []}')) as endpoint:
        assert status_at(_place(endpoint), "plays", 1.0) == {"pipeline": "plays", "routes": []}
