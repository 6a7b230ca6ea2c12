"""Who tells a stage to stop: a signal, or a marker that came after it began."""

import threading

import pytest

from enrich.base.errors import BadRecord, Retryable, Unreachable
from enrich.stage.run import stopping
from enrich.stage.run.stopping import StopOrder, request_stop, require_drained


class Marker:
    """As a checkpoint has it."""

    def __init__(self, at=None):
        self.at = at
        self.is_away = False
        self.texts = {}

    def request_stop(self):
        self.at = 11

    def read(self, name):
        return self.texts.get(name)

    def write(self, name, text):
        self.texts[name] = text

    def delete(self, name):
        self.texts.pop(name, None)

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
    with pytest.raises(Retryable, match="another driver of the stage has begun"):
        require_drained(marker)  # whoever wrote it may still wait
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


@pytest.mark.parametrize("failure", [None, BadRecord("an event cannot be processed", where="events/0/7")])
def test_whoever_tells_a_stage_to_stop_hears_what_kept_it_from_draining(failure):
    marker = Marker()
    order = StopOrder(marker, threading.Event())
    request_stop(marker)
    assert order.is_given()
    order.obeyed(failure)
    assert marker.at is None
    if failure is None:
        require_drained(marker)
    else:
        with pytest.raises(BadRecord, match="cannot be processed"):
            require_drained(marker)
    request_stop(marker)
    require_drained(marker)  # of the time before, nothing stays
