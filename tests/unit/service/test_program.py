"""A program that does not end when it is told to ends all the same, and says so."""

import os
import signal
import threading

import pytest

from enrich.base.exits import FAILED
from enrich.service.program import exit_after


def test_one_that_hangs_in_its_stop_says_why_it_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    codes, ended = list[int](), threading.Event()

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    monkeypatch.setattr(os, "_exit", end)
    for name in ("signal", "alarm"):
        monkeypatch.setattr(signal, name, lambda *_: None)
    exit_after(0.01)
    assert ended.wait(60)
    assert codes == [FAILED]
    assert "not ended within 0.01 s" in caplog.text
