"""Who tells a stage to stop: a signal, or a marker that came after it began."""

import threading

import pytest

from enrich.errors import Unreachable
from enrich.stage import stopping
from enrich.stage.stopping import StopOrder


class Marker:
    """As a checkpoint has it."""

    def __init__(self, at=None):
        self.at = at
        self.is_away = False

    def stop_marked_at(self):
        if self.is_away:
            raise Unreachable("the store does not answer")
        return self.at

    def forget_stop(self):
        self.at = None


@pytest.fixture(autouse=True)
def _asked_each_time(monkeypatch):
    monkeypatch.setattr(stopping, "_ASK_EVERY_S", 0)


def test_a_marker_that_was_there_before_is_for_another_driver():
    marker = Marker(at=5)
    order = StopOrder(marker, threading.Event())
    assert not order.is_given()
    order.forget_old()
    assert marker.at is None
    marker.at = 7
    order.forget_old()
    assert order.is_given()


def test_a_checkpoint_that_cannot_be_asked_ends_nothing_and_is_told_once(caplog):
    marker, signalled = Marker(), threading.Event()
    order = StopOrder(marker, signalled)
    marker.is_away = True
    assert not order.is_given()
    assert not order.is_given()
    assert len(caplog.records) == 1
    marker.is_away, marker.at = False, 9
    assert order.is_given()
    assert signalled.is_set()
