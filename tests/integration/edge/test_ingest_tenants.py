"""Senders that are rows of a table, followed by a real agent: known, limited, and revoked within a second."""

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from enrich.config import load
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import living_agent
from tests.support.ingesting import running, sent, write_config
from tests.support.processes import frozen, kill
from tests.support.waiting import wait_until

FREE = "listen: '127.0.0.1:0'"
FIRST, SLOW, THIN = "first", "slow", "thin"
COLUMNS = "name string, topics array<string>, events_per_s bigint, bytes_per_s double"


@pytest.fixture
def world(stack, tmp_path, cluster, new_topic):
    return World(stack, tmp_path, cluster, new_topic)


class World:
    """A table of tenants, and two entries that know them."""

    def __init__(self, stack, folder, cluster, new_topic):
        self._cluster = cluster
        self.senders = new_topic(cleanup_policy="compact")
        self.plays, self.ads = new_topic(), new_topic()
        entry = f"{FREE}, format: json, tenants: senders"
        self.config = write_config(
            folder / "pipeline.yaml",
            stack.bootstrap_servers,
            f"tables:\n  senders: {{topic: {self.senders}, format: json, columns: '{COLUMNS}'}}\n"
            f"ingest:\n  plays: {{{entry}, path: /plays, topic: {self.plays}}}\n"
            f"  ads: {{{entry}, path: /ads, topic: {self.ads}, max_body: 10KiB, max_inflated: 10KiB}}\n",
        )

    def put(self, token, **row):
        self._cluster.produce(self.senders, [(digest(token), json.dumps(row).encode())])

    def revoke(self, token):
        self._cluster.produce(self.senders, [(digest(token), None)])

    def agent(self):
        header = living_agent(paths_of(load(self.config)))
        return None if header is None else header.pid


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest().encode()


def statuses(url, token, count=1, body="{}"):
    return [sent(url, body, token=token).status for _ in range(count)]


def test_tenants_are_known_by_their_tokens_and_seen_and_revoked_within_a_second(world, cluster):
    world.put("first", name="First")
    with running(world.config) as ingest:
        url = ingest.url("plays")
        assert statuses(url, "first", 3) == [200] * 3
        strangers = ("nobody", "nobody", digest("first").decode(), None)
        assert [sent(url, "{}", token=token).status for token in strangers] == [401] * 4
        world.put("second", name="Second")
        written = time.monotonic()
        wait_until(lambda: statuses(url, "second") == [200], what="the new tenant")
        assert time.monotonic() - written < 10, "a busy machine is slow; it is a second otherwise"
        world.revoke("first")
        revoked = time.monotonic()
        wait_until(lambda: statuses(url, "first") == [401], what="the end of the first")
        assert time.monotonic() - revoked < 10
        assert statuses(url, "first", 5) == [401] * 5, "it stays revoked"
        assert statuses(url, "second", 2) == [200] * 2
    assert ingest.said().count("first") == 0


def test_a_tenant_that_was_quiet_is_revoked_too_though_its_row_was_kept(world):
    world.put("quiet", name="Quiet")
    with running(world.config) as ingest:
        url = ingest.url("plays")
        assert statuses(url, "quiet") == [200]
        world.revoke("quiet")
        seen = time.monotonic() + 1.0
        # Nobody asks for it meanwhile: no reload is started for it.
        wait_until(lambda: time.monotonic() > seen, what="the second in which it is seen")
        assert statuses(url, "quiet") == [401]


def test_a_tenant_may_send_to_its_topics_only(world, cluster):
    world.put("both", name="Both", topics=[world.plays, world.ads])
    world.put("one", name="One", topics=[world.plays])
    world.put("none", name="None", topics=[])
    with running(world.config) as ingest:
        plays, ads = ingest.url("plays"), ingest.url("ads")
        assert (statuses(plays, "both"), statuses(ads, "both")) == ([200], [200])
        assert (statuses(plays, "one"), statuses(ads, "one")) == ([200], [403])
        assert (statuses(plays, "none"), statuses(ads, "none")) == ([403], [403])
        # Who may not send here is not told what is wrong with the request besides.
        assert sent(ads, "x" * 20_000, "text/html", "one") == 403
        assert sent(ads, "x" * 20_000, "text/html", "nobody") == 401
        assert sent(ads, "x" * 20_000, "text/html", "both") == 413
    assert len(cluster.messages(world.ads)) == 1


def test_a_tenant_that_sends_too_much_is_told_when_to_come_again_and_the_others_are_not_held_up(world):
    world.put("slow", name="Slow", events_per_s=2)
    world.put("thin", name="Thin", bytes_per_s=10)
    world.put("stopped", name="Stopped", events_per_s=0)
    world.put("free", name="Free")
    with running(world.config) as ingest:
        url = ingest.url("plays")
        ten = json.dumps([{}] * 10)
        assert sent(url, ten, token=SLOW) == 200, "a request may take more than is left"
        refused = sent(url, "{}", token=SLOW)
        assert refused == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 4
        assert sent(url, json.dumps({"text": "x" * 600}), token=THIN) == 200
        assert 30 <= int(sent(url, "{}", token=THIN).headers["retry-after"]) <= 61
        assert statuses(url, "stopped", 2) == [429] * 2
        assert statuses(url, "free", 5) == [200] * 5
        wait_until(lambda: statuses(url, "slow") == [200], what="its turn")
        world.put("thin", name="Thin", bytes_per_s=1e9)
        wait_until(lambda: statuses(url, "thin") == [200], what="the higher rate")


def test_an_agent_that_is_killed_is_replaced_and_no_request_is_lost_or_let_in_unknown(world, cluster):
    world.put("first", name="First")
    with running(world.config) as ingest:
        url = ingest.url("plays")
        assert statuses(url, "first") == [200]
        kill(world.agent())
        with ThreadPoolExecutor(8) as pool:
            known = pool.map(lambda _: sent(url, "{}", token=FIRST).status, range(16))
            unknown = pool.map(lambda n: sent(url, "{}", token=f"nobody{n}").status, range(16))
            answers = list(known)
            assert set(answers) <= {200, 503}
            assert set(unknown) <= {401, 503}
        wait_until(lambda: statuses(url, "first") == [200], what="another agent")
        assert world.agent() is not None
        ingest.until_ready()


def test_while_the_agent_stands_still_nobody_is_let_in_unknown_and_readiness_says_why(world):
    world.config.write_text(world.config.read_text().replace("tenants: senders", "tenants: senders, deadline: 500ms"))
    world.put("first", name="First")
    with running(world.config) as ingest:
        url = ingest.url("plays")
        assert statuses(url, "first") == [200]
        with frozen(world.agent()):
            wait_until(lambda: statuses(url, "first") == [503], what="the end of what is known")
            assert statuses(url, "nobody") == [503]
            assert sent(url, "{}") == 401, "who has no token needs no look-up"
            wait_until(ingest.not_ready, what="the end of readiness")
            assert "agent" in ingest.not_ready()["plays"]
            assert ingest.ask("/healthz")[0] == 200
        wait_until(lambda: statuses(url, "first") == [200], what="the agent's answer")
        assert statuses(url, "nobody") == [401]
        ingest.until_ready()


def test_entries_without_tenants_on_the_same_address_never_wait_for_the_agent(world, new_topic):
    open_topic = new_topic()
    text = world.config.read_text()
    world.config.write_text(f"{text}  open: {{{FREE}, path: /open, topic: {open_topic}, format: json}}\n")
    world.put("first", name="First")
    with running(world.config) as ingest:
        assert statuses(ingest.url("plays"), "first") == [200]
        kill(world.agent())
        began = time.monotonic()
        assert statuses(ingest.url("open"), None, 20) == [200] * 20
        took = time.monotonic() - began
        assert sent(ingest.url("plays"), "{}", token=FIRST).status in (200, 503)
        assert took < 10
