"""What the agent asks the brokers about its topics: one that cannot be asked holds no other up."""

import threading
from contextlib import ExitStack, closing

import pytest

from enrich.base.errors import Unreachable
from enrich.host.claims.moments import Clocks
from enrich.host.claims.watch import Answer, TopicWatch
from enrich.kafka import Topics
from enrich.kafka.ends import ManyEnds
from stores.clock import SystemClock
from tests.support.clock import ManualClock
from tests.support.waiting import wait_until


class Silent(set[str]):
    """Topics whose leader does not answer, until it is back."""

    def __init__(self) -> None:
        self.back = threading.Event()

    def are_among(self, names) -> bool:
        return not self.back.is_set() and not self.isdisjoint(names)


@pytest.fixture
def silent(monkeypatch):
    silent = Silent()
    together, alone = ManyEnds.of, Topics.ends

    def ends_together(self, topics, *leaders):
        if silent.are_among(topics):
            raise Unreachable("no answer")
        return together(self, topics, *leaders)

    def ends_alone(self, names):
        if set(names) == silent:
            silent.back.wait()  # its client waits five seconds, and longer to find out why
        if silent.are_among(names):
            return {**alone(self, set(names) - silent), **dict.fromkeys(silent, Unreachable("no answer"))}
        return alone(self, names)

    monkeypatch.setattr(ManyEnds, "of", ends_together)
    monkeypatch.setattr(Topics, "ends", ends_alone)
    return silent


def test_a_topic_whose_leader_is_silent_holds_no_other_up(cluster, new_topic, silent):
    good, bad = new_topic(), new_topic(partitions=2)
    watching = closing(TopicWatch([good, bad], cluster.connection, Clocks(SystemClock())))
    with watching as watch, ExitStack() as end:
        end.callback(silent.back.set)  # its close waits for what is under way
        came = []

        def answered(name):
            came.append(watch.answers())
            return isinstance(came[-1].get(name), Answer)

        wait_until(lambda: answered(bad), what="an answer while all is well")
        silent.add(bad)
        wait_until(lambda: answered(good) and isinstance(came[-1].get(bad), Unreachable), what="no answer about one")
        for _ in range(3):
            wait_until(lambda: answered(good), what="an answer about the other one")
        silent.back.set()
        wait_until(lambda: answered(bad), what="an answer once its leader is back")


@pytest.mark.parametrize("how", ["together", "alone"])
def test_an_answer_is_of_a_moment_before_it_was_asked_for(cluster, topic, monkeypatch, how):
    """What comes while the request is on its way is not below the ends that it brings."""
    clock, sent = ManualClock(), []
    together, alone = ManyEnds.of, Topics.ends

    def slowly(ask):
        def ask_slowly(*given):
            sent.append(clock.now_ms())
            clock.advance(1_000)
            return ask(*given)

        return ask_slowly

    def refused(*_):
        raise Unreachable("no answer")

    monkeypatch.setattr(ManyEnds, "of", slowly(together) if how == "together" else refused)
    monkeypatch.setattr(Topics, "ends", slowly(alone))
    with closing(TopicWatch([topic], cluster.connection, Clocks(clock, clock))) as watch:
        answer = wait_until(lambda: watch.answers().get(topic), what="an answer")
    assert isinstance(answer, Answer)
    assert answer.asked.wall_ms == sent[0]
