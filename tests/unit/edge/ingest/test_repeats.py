"""A request that is repeated with its key is done once, and every copy gets the answer."""

from http import HTTPStatus

import pytest

from edge_service.ingest.entry.answering import Once
from edge_service.ingest.entry.repeats import KEEP_S, Repeats
from edge_service.ingest.reading.refusals import Refused
from edge_service.ingest.wire.connection import Answer, Request

GOOD, BAD = Answer(HTTPStatus.OK, b"{}"), Answer(HTTPStatus.SERVICE_UNAVAILABLE)


class Sender:
    def __init__(self, most=100):
        self.now = 0.0
        self.repeats = Repeats(lambda: self.now, most)
        self.answers = []

    def send(self, key, body=b"body", token=b"Bearer t"):
        headers = {b"authorization": token} | ({} if key is None else {b"idempotency-key": key})
        return self.repeats.once(Request("POST", "/", headers, body), Once(self.answers.append))


def test_without_a_key_each_request_is_its_own():
    sender = Sender()
    assert sender.send(None) is not None
    assert sender.send(None) is not None


def test_a_repeat_gets_the_first_ones_answer_also_while_that_is_under_way():
    sender = Sender()
    first = sender.send(b"k")
    assert sender.send(b"k") is None
    assert sender.answers == []
    first(GOOD)
    assert sender.answers == [GOOD, GOOD]
    assert sender.send(b"k") is None
    assert sender.answers == [GOOD] * 3


def test_what_was_not_acknowledged_is_tried_again():
    sender = Sender()
    first = sender.send(b"k")
    assert sender.send(b"k") is None
    first(BAD)
    assert sender.answers == [BAD, BAD]
    assert sender.send(b"k") is not None


def test_a_key_is_its_senders_own_and_goes_with_one_body():
    sender = Sender()
    sender.send(b"k")(GOOD)
    assert sender.send(b"k", token=b"Bearer u") is not None
    with pytest.raises(Refused, match="another body"):
        sender.send(b"k", body=b"other")
    for key in (b"", b"x" * 256):
        with pytest.raises(Refused, match="1 to 255 bytes"):
            sender.send(key)


def test_answers_are_forgotten_by_age_and_number():
    sender = Sender(most=3)
    for key in (b"a", b"b", b"c"):
        sender.send(key)(GOOD)
    assert sender.send(b"d") is not None
    assert sender.send(b"a") is not None
    sender.now += KEEP_S
    assert sender.send(b"c") is not None


def test_large_answers_are_kept_within_bounds():
    sender = Sender(most=10_000)
    large = Answer(HTTPStatus.OK, bytes(1 << 20))
    for number in range(40):
        sender.send(b"%d" % number)(large)
    assert sum(sender.send(b"%d" % number) is None for number in range(20, 40)) in range(10, 20)
