"""A table's trouble is its own: it stands still and says why, others go on, and it comes back with nothing lost."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from enrich.base.errors import ConfigError, Unreachable
from enrich.codecs import JsonDecoder, NotAskedYet
from stores.protocol import TableSpec
from stores.rocks import RocksStore
from tests.support.host.agents import PLANS, AgentLife, plans_table, produce_plans


class Faulty:
    """A decoder that does what a test tells it before it decodes."""

    def __init__(self) -> None:
        self.before: Callable[[], object] = lambda: None

    def decode(self, values):
        self.before()
        return JsonDecoder(PLANS).decode(values)


def raising(error):
    def fail(*_):
        raise error

    return fail


@pytest.fixture
def topics(new_topic):
    return [new_topic(cleanup_policy="compact") for _ in range(2)]


@pytest.fixture
def life(cluster, topics, tmp_path):
    """`users` can be made faulty; `same` has its topic, `other` one of its own."""
    lives = []

    def start(**decoders):
        users = replace(plans_table(topics[0]), spec=TableSpec(PLANS, decoders["decoder"]), at_once=decoders["at_once"])
        others = plans_table(topics[0], name="same"), plans_table(topics[1], name="other")
        lives.append(AgentLife(tmp_path, cluster.connection, users, *others).start())
        return lives[-1]

    yield start
    for one in lives:
        one.stop()


def produce(cluster, topics, **plans):
    for topic in topics:
        produce_plans(cluster, topic, **plans)


def keeps_up(life, *names):
    for name in names:
        life.until_complete(name)
        assert life.rows(name)["ann"] == "later", name
        assert life.state(name).next_try is None


ERRORS = [
    Unreachable("the schema registry did not answer", where="http://registry"),
    ConfigError("the schema registry refuses us with status 403", next_step="check kafka.registry.username"),
    RuntimeError("nobody has thought of this"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_table_that_cannot_be_decoded_stands_still_and_the_others_go_on(cluster, topics, life, error):
    decoder = Faulty()
    agent = life(decoder=decoder, at_once=None)
    produce(cluster, topics, ann="first", bob="first")
    for name in ("users", "same", "other"):
        agent.until_complete(name)
    decoder.before = raising(error)
    produce(cluster, topics, ann="later", cid="later")
    aside = agent.until(lambda state: state.reason, "the reason")
    keeps_up(agent, "same", "other")
    again = agent.until(lambda state: state.next_try > aside.next_try, "the next try")
    assert str(error) in again.reason
    assert (again.ready, again.complete_through) == (True, aside.complete_through)
    assert agent.versions("ann") == ["first"]
    produce(cluster, topics, bob="last", dan=None, eve="last")
    decoder.before = lambda: None
    agent.until_complete()
    assert agent.rows() == {"ann": "later", "bob": "last", "cid": "later", "eve": "last"}
    assert (agent.state().reason, agent.state().next_try) == (None, None)
    agent.verify()


def test_a_table_that_waits_for_a_server_holds_up_no_other(cluster, topics, life):
    known, decoder, at_once = threading.Event(), Faulty(), Faulty()
    agent = life(decoder=decoder, at_once=at_once)
    produce(cluster, topics, ann="first")
    for name in ("users", "same", "other"):
        agent.until_complete(name)
    decoder.before = lambda: known.wait(120)
    at_once.before = lambda: None if known.is_set() else raising(NotAskedYet("schema id 7"))()
    produce(cluster, topics, ann="later")
    keeps_up(agent, "same", "other")
    assert (agent.versions("ann"), agent.state().next_try) == (["first"], None)
    known.set()
    keeps_up(agent, "users")


def test_a_table_that_cannot_be_written_or_loaded_stands_still_and_the_others_go_on(cluster, topics, life, monkeypatch):
    agent = life(decoder=JsonDecoder(PLANS), at_once=None)
    produce(cluster, topics, ann="first")

    def fails_for_users(name):
        whole = getattr(RocksStore, name)

        def method(store, table, *rest):
            if "users" in (table, getattr(table, "name", None)):
                raise RuntimeError(f"{name} met what nobody has thought of")
            return whole(store, table, *rest)

        return method

    with monkeypatch.context() as broken:
        broken.setattr(RocksStore, "swap", fails_for_users("swap"))
        assert "swap met" in agent.until(lambda state: state.next_try, "the failed load").reason
        agent.until_complete("same")
    agent.until_complete()
    with monkeypatch.context() as broken:
        broken.setattr(RocksStore, "_folded", fails_for_users("_folded"))
        produce(cluster, topics, ann="later")
        keeps_up(agent, "same", "other")
        assert "_folded met" in agent.until(lambda state: state.next_try, "the failed write").reason
    keeps_up(agent, "users")
    agent.verify()


def test_a_table_that_is_set_aside_is_loaded_anew_if_somebody_asks_for_it(cluster, topics, life):
    agent = life(decoder=JsonDecoder(PLANS), at_once=None)
    produce(cluster, topics, ann="first")
    agent.until_complete()
    before = agent.load_of("users")
    agent.keeper("users").failed(RuntimeError("nobody has thought of this"))
    agent.load_again("users")
    produce(cluster, topics, ann="later")
    keeps_up(agent, "users")
    assert agent.load_of("users") != before
