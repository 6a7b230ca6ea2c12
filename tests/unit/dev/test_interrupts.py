"""Signals while servers start: noted, acted on between two steps, passed on at the end."""

import signal
import threading

import pytest

from enrich.dev.processes.interrupts import Interrupted, deferred


@pytest.fixture(autouse=True)
def _interruptible():
    """As a command finds it, whatever a run in the background or another test has made of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    if before is not None:  # not set by Python: nothing can set it again
        signal.signal(signal.SIGINT, before)


def test_a_signal_raises_nothing_inside_and_is_passed_on_at_the_end():
    reached = False
    with pytest.raises(KeyboardInterrupt), deferred() as signals:
        assert not signals.pending
        signal.raise_signal(signal.SIGINT)
        reached = signals.pending
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_check_or_the_commit_ends_the_block_early():
    for step in ("check", "commit"):
        with pytest.raises(KeyboardInterrupt), deferred() as signals:
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(Interrupted):
                signals.check() if step == "check" else signals.commit(final=False)


def test_a_second_signal_means_hurry():
    with pytest.raises(KeyboardInterrupt), deferred() as signals:
        signal.raise_signal(signal.SIGINT)
        assert not signals.hurried
        signal.raise_signal(signal.SIGINT)
        assert signals.hurried


def test_after_a_final_commit_no_signal_takes_effect(monkeypatch):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with deferred() as signals:
            signals.commit(final=True)
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert not signals.pending


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with deferred() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert not signals.pending
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_error_inside_does_not_swallow_the_signal():
    with pytest.raises(KeyboardInterrupt), deferred():
        signal.raise_signal(signal.SIGINT)
        raise ValueError


def test_in_another_thread_nothing_is_held_back_because_nothing_arrives_there():
    seen = []

    def run():
        with deferred() as signals:
            seen.append(signals.pending)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [False]


def test_inside_children_say_how_they_end_and_afterwards_all_is_as_it_was():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with deferred():
            assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGCHLD, before)
