"""Senders that are rows of a table, followed by a real agent: known, limited, and revoked within a second."""

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from enrich.config import load
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import living_agent
from tests.support.edge.ingesting import Ingest, running, sent, write_config
from tests.support.host.ending import stop_agent_of
from tests.support.processes import frozen, kill
from tests.support.waiting import wait_until

FREE = "listen: '127.0.0.1:0'"
COLUMNS = "name string, topics array<string>, events_per_s bigint, bytes_per_s double"


class World:
    """A table of tenants, a program with two entries that know them, and one that everybody may use."""

    senders, plays, ads, open = (f"tenants.{name}" for name in ("senders", "plays", "ads", "open"))

    ingest: Ingest

    def __init__(self, stack, folder, cluster):
        self._cluster = cluster
        cluster.topics.create(self.senders, config={"cleanup.policy": "compact"})
        for topic in (self.plays, self.ads, self.open):
            cluster.topics.create(topic)
        entry = f"{FREE}, format: json, tenants: senders"
        self.config = write_config(
            folder / "pipeline.yaml",
            stack.bootstrap_servers,
            f"tables:\n  senders: {{topic: {self.senders}, format: json, columns: '{COLUMNS}'}}\n"
            f"ingest:\n  plays: {{{entry}, path: /plays, topic: {self.plays}}}\n"
            f"  ads: {{{entry}, path: /ads, topic: {self.ads}, max_body: 10KiB, max_inflated: 10KiB}}\n"
            f"  open: {{{FREE}, path: /open, topic: {self.open}, format: json}}\n",
        )

    def put(self, token, **row):
        self._cluster.produce(self.senders, [(digest(token), json.dumps(row).encode())])

    def let_in(self, token, **row):
        """Returns once it is known."""
        self.put(token, **row)
        wait_until(lambda: decided(self.url("plays"), token) != [401], what=f"the row of {token}")

    def revoke(self, token):
        self._cluster.produce(self.senders, [(digest(token), None)])

    def agent(self):
        header = wait_until(lambda: living_agent(paths_of(load(self.config))), what="an agent")
        assert header is not None
        return header.pid

    def url(self, entry):
        return self.ingest.url(entry)


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest().encode()


def statuses(url, token, count=1, body="{}"):
    return [sent(url, body, token=token).status for _ in range(count)]


def decided(url, token, count=1, body="{}"):
    """The same, asked again while a busy machine is too slow to answer with more than 503."""

    def one():
        (status,) = statuses(url, token, body=body)
        return status != 503 and status

    return [wait_until(one, what="an answer") for _ in range(count)]


@pytest.fixture(scope="module")
def shared(stack, tmp_path_factory, cluster):
    world = World(stack, tmp_path_factory.mktemp("tenants"), cluster)
    with running(world.config) as world.ingest:
        yield world
    stop_agent_of(load(world.config))


@pytest.fixture
def world(shared):
    shared.ingest.until_ready()
    return shared


def test_tenants_are_known_by_their_tokens_and_revoked_within_a_second(world):
    url = world.url("plays")
    world.let_in("first", name="First")
    assert decided(url, "first", 3) == [200] * 3
    assert [decided(url, token) for token in ("nobody", "nobody", digest("first").decode(), None)] == [[401]] * 4
    world.let_in("second", name="Second")
    world.revoke("first")
    revoked = time.monotonic()
    wait_until(lambda: decided(url, "first") == [401], what="the end of the first")
    assert time.monotonic() - revoked < 10, "a busy machine is slow; it is a second otherwise"
    assert decided(url, "first", 5) == [401] * 5, "it stays revoked"
    assert decided(url, "second", 2) == [200] * 2
    assert "first" not in world.ingest.said()


def test_a_tenant_that_was_quiet_is_revoked_too_though_its_row_was_kept(world):
    url = world.url("plays")
    world.let_in("quiet", name="Quiet")
    world.let_in("witness", name="Witness")
    assert decided(url, "quiet") == [200]
    world.revoke("quiet")
    world.revoke("witness")
    wait_until(lambda: decided(url, "witness") == [401], what="the agent's knowledge")
    kept_until = time.monotonic() + 0.7
    # Nobody asks for it meanwhile: no reload is started for it.
    wait_until(lambda: time.monotonic() > kept_until, what="the time for which rows are kept")
    assert decided(url, "quiet") == [401]


def test_a_tenant_may_send_to_its_topics_only(world, cluster):
    plays, ads = world.url("plays"), world.url("ads")
    world.let_in("both", name="Both", topics=[world.plays, world.ads])
    world.let_in("one", name="One", topics=[world.plays])
    world.let_in("none", name="None", topics=[])
    assert (decided(plays, "both"), decided(ads, "both", body='{"from": "both"}')) == ([200], [200])
    assert (decided(plays, "one"), decided(ads, "one")) == ([200], [403])
    assert (decided(plays, "none"), decided(ads, "none")) == ([403], [403])
    # Who may not send here is not told what else is wrong with the request, also if it has to be looked up first.
    wrong = ("x" * 20_000, "text/html")
    for token, status in (("one", 403), ("nobody at all", 401), ("both", 413)):
        assert sent(ads, *wrong, token) == status
    assert [message.value() for message in cluster.messages(world.ads)] == [b'{"from": "both"}']


def test_a_tenant_that_sends_too_much_is_told_when_to_come_again_and_the_others_are_not_held_up(world):
    url = world.url("plays")
    world.let_in("thin", name="Thin", bytes_per_s=10)
    world.let_in("slow", name="Slow", events_per_s=2)
    world.let_in("stopped", name="Stopped", events_per_s=0)
    world.let_in("free", name="Free")
    assert decided(url, "slow", body=json.dumps([{}] * 10)) == [200], "a request may take more than is left"
    refused = sent(url, "{}", "application/json", "slow")
    assert refused == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 5
    assert decided(url, "thin", body=json.dumps({"text": "x" * 600})) == [200]
    assert 30 <= int(sent(url, "{}", "application/json", "thin").headers["retry-after"]) <= 62
    world.let_in("wrong", name="Wrong", bytes_per_s=10)
    assert decided(url, "wrong", body="x" * 600) == [400], "what cannot be read was sent too"
    assert 30 <= int(sent(url, "{}", "application/json", "wrong").headers["retry-after"]) <= 62
    assert decided(url, "stopped", 2) == [429] * 2
    assert decided(url, "free", 5) == [200] * 5
    wait_until(lambda: decided(url, "slow") == [200], what="its turn")
    world.put("thin", name="Thin", bytes_per_s=1e9)
    wait_until(lambda: decided(url, "thin") == [200], what="the higher rate")


def test_an_agent_that_is_killed_is_replaced_and_nobody_is_let_in_unknown(world):
    url = world.url("plays")
    world.let_in("first", name="First")
    killed = world.agent()
    kill(killed)
    with ThreadPoolExecutor(8) as pool:
        known = pool.map(lambda _: statuses(url, "first"), range(16))
        unknown = pool.map(lambda number: statuses(url, f"nobody{number}"), range(16))
        assert {status for (status,) in known} <= {200, 503}
        assert {status for (status,) in unknown} <= {401, 503}
    assert statuses(world.url("open"), None, 20) == [200] * 20, "who asks for no tenant does not wait for one"
    wait_until(lambda: statuses(url, "first") == [200], what="another agent")
    assert world.agent() != killed


def test_while_the_agent_stands_still_nobody_is_let_in_unknown_and_readiness_says_why(world):
    url = world.url("plays")
    world.let_in("first", name="First")
    with frozen(world.agent()):
        wait_until(lambda: statuses(url, "first") == [503], what="the end of what is known")
        assert statuses(url, "somebody") == [503]
        assert statuses(url, None) == [401], "who has no token needs no look-up"
        wait_until(world.ingest.not_ready, what="the end of readiness")
        assert set(world.ingest.not_ready()) == {"plays", "ads"}
        assert "agent" in world.ingest.not_ready()["plays"]
        assert world.ingest.ask("/healthz")[0] == 200
        assert statuses(world.url("open"), None, 20) == [200] * 20
    wait_until(lambda: statuses(url, "first") == [200], what="the agent's answer")
    wait_until(lambda: statuses(url, "somebody") == [401], what="the agent's answer")
