"""A table that comes straight from Redis is as Redis is, a refresh later, and never less than that by accident."""

import json
import math
import time

import pytest

from enrich.config.messages.problems import ConfigProblems
from enrich.dev.servers.ports import is_listening
from enrich.host.loaders import keeper as loader_keeper
from tests.support.clock import ManualClock
from tests.support.host.loader_agent import REFRESH_MS, loader_agent
from tests.support.processes import frozen
from tests.support.waiting import wait_until

PATIENCE_S = 5


def section(server, *, user="", columns="rps int", pattern="limit:*", more=""):
    url = server.url.replace("//", f"//{user}")
    return f'{{loader: {{redis: "{url}", pattern: "{pattern}"}}, format: json, columns: "{columns}"{more}}}'


def put(client, **limits):
    for name, rps in limits.items():
        client.set(f"limit:{name}", json.dumps({"rps": rps}))


def test_rows_are_loaded_and_each_refresh_brings_what_changed_and_nothing_else(server, folder):
    client = server.start()
    put(client, ann=1, bob=2, eve=3)
    client.set("other:zoe", "{}")
    with loader_agent(folder, section(server)) as agent:
        agent.until_ready()
        assert agent.rows() == {"ann": 1, "bob": 2, "eve": 3}
        before = agent.versions()
        assert sorted(agent.offsets().values()) == [0, 1, 2]

        put(client, ann=10, zoe=4)
        client.delete("limit:eve")
        agent.refresh()
        assert agent.rows() == {"ann": 10, "bob": 2, "zoe": 4}
        after = agent.versions()
        assert after["bob"] == before["bob"]
        changed = ["ann", "eve", "zoe"]
        assert sorted(after[key].offset for key in changed) == [3, 4, 5]
        assert {after[key].timestamp for key in changed} == {agent.state().complete_through}
        assert after["eve"].value is None

        agent.refresh()
        assert agent.versions() == after


def test_what_changes_between_two_reads_is_not_seen_before_the_interval_is_over(server, folder):
    client = server.start()
    put(client, ann=1)
    with loader_agent(folder, section(server)) as agent:
        ready = agent.until_ready()
        put(client, ann=2)
        agent.clock.advance(REFRESH_MS - 1)
        for _ in range(5):
            assert agent.state() == ready
        agent.clock.advance(1)
        agent.until(lambda _: agent.rows() == {"ann": 2}, "the refresh")


def test_a_server_that_is_down_at_the_start_is_the_reason_and_the_table_is_ready_once_it_is_up(server, folder):
    with loader_agent(folder, section(server)) as agent:
        waiting = agent.until(lambda state: "Redis" in (state.reason or ""), "the reason")
        assert (waiting.ready, waiting.rows, waiting.complete_through) == (False, 0, None)
        assert "check that Redis runs" in str(waiting.reason)
        put(server.start(), ann=1)
        agent.clock.advance(REFRESH_MS)
        assert agent.until_ready().reason is None
        assert agent.rows() == {"ann": 1}


def test_while_the_server_is_away_the_last_rows_are_served_and_the_reason_is_said(server, folder):
    put(server.start(), ann=1)
    with loader_agent(folder, section(server)) as agent:
        ready = agent.until_ready()
        server.kill()
        away = agent.try_refresh("check that Redis runs")
        assert (away.ready, away.complete_through) == (True, ready.complete_through)
        assert agent.rows() == {"ann": 1}
        put(server.start(), ann=2)
        assert agent.refresh().reason is None
        assert agent.rows() == {"ann": 2}


def test_a_server_that_hangs_holds_up_neither_the_loop_nor_the_rows(server, folder):
    put(server.start(), ann=1)
    with loader_agent(folder, section(server)) as agent:
        agent.until_ready()
        with frozen(server.pid):
            agent.clock.advance(REFRESH_MS)
            longest = 0.0
            began = time.monotonic()
            while agent.state().reason is None:
                assert time.monotonic() - began < 3 * PATIENCE_S
                step_began = time.monotonic()
                agent.state()
                longest = max(longest, time.monotonic() - step_began)
            assert longest < 1
            assert agent.rows() == {"ann": 1}
        assert agent.refresh().reason is None


def test_a_refused_login_is_a_reason_without_the_password(server, folder, caplog):
    server.start("--requirepass", "right")
    with loader_agent(folder, section(server, user=":wr0ng-s3cret@")) as agent:
        refused = agent.until(lambda state: "Redis" in (state.reason or ""), "the reason")
        assert "correct the url (server, user name, password)" in str(refused.reason)
        assert ":***@" in str(refused.reason)
        assert "wr0ng-s3cret" not in str(refused) + str([vars(record) for record in caplog.records])


def test_rows_that_cannot_be_rows_are_set_aside_once_and_the_row_before_stays(server, folder):
    client = server.start()
    put(client, ann=1, bob=2, eve=3, zoe=4)
    with loader_agent(folder, section(server)) as agent:
        agent.until_ready()
        client.set("limit:ann", "no json")
        put(client, bob="two", new="one")
        state = agent.refresh()
        assert agent.rows() == {"ann": 1, "bob": 2, "eve": 3, "zoe": 4}
        assert (state.quarantined, state.rows) == (3, 4)
        put(client, eve=30)
        assert agent.refresh().quarantined == 3
        assert agent.rows()["eve"] == 30
        put(client, ann=10)
        client.delete("limit:bob", "limit:new")
        assert agent.refresh().quarantined == 3
        assert agent.rows() == {"ann": 10, "eve": 30, "zoe": 4}


def test_hashes_are_rows_of_json_and_what_is_neither_hash_nor_string_is_said(server, folder):
    client = server.start()
    client.hset("limit:ann", mapping={"rps": "1", "plan": "5", "_version": "7"})
    client.hset("limit:gone", mapping={"rps": "1", "_version": "8", "_deleted": "1"})
    client.set("limit:bob", '{"rps": 2, "plan": "pro"}')
    client.rpush("limit:list", "x")
    with loader_agent(folder, section(server, columns="rps int, plan string")) as agent:
        state = agent.until_ready()
        assert agent.rows() == {"ann": {"rps": 1, "plan": "5"}, "bob": {"rps": 2, "plan": "pro"}}
        assert state.reason == "1 rows hold a list"
        client.hset("limit:ann", mapping={"_deleted": "1"})
        agent.refresh()
        assert list(agent.rows()) == ["bob"]


def test_other_formats_take_the_strings_as_they_are(server, folder):
    client = server.start()
    client.mset({"ann": "pro", "bob": b"\xff"})
    client.hset("eve", "plan", "pro")
    url = server.url
    with loader_agent(folder, f'{{loader: {{redis: "{url}"}}, format: string}}') as agent:
        state = agent.until_ready()
        assert agent.rows() == {"ann": "pro"}
        assert state.quarantined == 1
        assert state.reason == "1 rows hold a hash, which only format: json can take"


def test_networks_of_redis_are_found_by_their_addresses(server, folder):
    client = server.start()
    client.mset({"net:10.0.0.0/8": '{"rps": 1}', "net:10.1.2.3/16": '{"rps": 2}', "net:here": '{"rps": 3}'})
    with loader_agent(folder, section(server, pattern="net:*", more=", key: cidr")) as agent:
        state = agent.until_ready()
        assert agent.rows() == {"10.0.0.0/8": 1, "10.1.0.0/16": 2}
        assert state.quarantined == 1
        client.set("net:10.0.0.0/8", '{"rps": 5}')
        assert agent.refresh().quarantined == 1
        assert agent.rows() == {"10.0.0.0/8": 5, "10.1.0.0/16": 2}


def test_a_flushed_server_empties_the_table_only_when_three_reads_in_a_row_say_so(server, folder):
    client = server.start()
    put(client, ann=1, bob=2)
    with loader_agent(folder, section(server)) as agent:
        ready = agent.until_ready()
        client.flushall()
        for number in (1, 2):
            held = agent.try_refresh(f"this was number {number}")
            assert (held.ready, held.complete_through) == (True, ready.complete_through)
            assert agent.rows() == {"ann": 1, "bob": 2}
        put(client, ann=1)
        agent.refresh()
        assert agent.rows() == {"ann": 1}
        client.flushall()
        for number in (1, 2):
            agent.try_refresh(f"this was number {number}")
        assert agent.refresh().reason == "the source has no rows"
        assert agent.rows() == {}


def test_a_server_that_is_loading_its_file_is_waited_for(server, folder):
    plain = ("--dir", str(folder), "--rdbcompression", "no")
    client = server.start(*plain)
    # It says so only after each two megabytes of its file.
    client.mset({f"limit:{number}": json.dumps({"rps": number, "more": "x" * 40_000}) for number in range(500)})
    client.save()
    with loader_agent(folder, section(server)) as agent:
        agent.until_ready()
        server.kill()
        server.start(*plain, "--key-load-delay", "4000", wait=False)
        wait_until(lambda: is_listening(server.port), what="a server that loads")
        agent.try_refresh("loading the dataset")
        assert len(agent.rows()) == 500


def test_a_restarted_agent_has_its_rows_at_once_and_goes_on_counting(server, folder):
    clock = ManualClock()
    client = server.start()
    put(client, ann=1, bob=2)
    with loader_agent(folder, section(server), clock) as agent:
        agent.until_ready()
        agent.refresh()
        before = agent.versions()
    server.kill()
    with loader_agent(folder, section(server), clock) as agent:
        assert agent.state().ready, "the rows are younger than the interval"
        assert agent.versions() == before
    clock.advance(REFRESH_MS)
    with loader_agent(folder, section(server), clock) as agent:
        assert not agent.state().ready, "the source may have changed"
        agent.until(lambda state: state.ready and "Redis" in (state.reason or ""), "the old rows, after a try")
        assert agent.versions() == before
        put(server.start(), ann=1, bob=3)
        agent.refresh()
        after = agent.versions()
        assert after["ann"] == before["ann"]
        assert after["bob"].offset == 2


def test_what_could_not_be_read_for_too_long_is_dropped_and_comes_back(server, folder, monkeypatch):
    client = server.start()
    put(client, ann=1)
    with loader_agent(folder, section(server, more=", expire: 1h")) as agent:
        agent.until_ready()
        server.kill()
        agent.clock.advance(3_600_000 - 2 * REFRESH_MS)
        agent.try_refresh("check that Redis runs")
        assert (agent.state().ready, agent.rows()) == (True, {"ann": 1})
        monkeypatch.setattr(loader_keeper, "_DROP_AFTER_S", math.inf)
        agent.clock.advance(REFRESH_MS)
        agent.until(lambda state: not state.ready, "the end of its time")
        for _ in range(20):
            agent.state()
        assert agent.rows() == {"ann": 1}, "a reader that found the table ready would see deleted rows"
        monkeypatch.setattr(loader_keeper, "_DROP_AFTER_S", 0)
        agent.until(lambda state: not state.ready and not agent.rows(), "the end of its rows")
        assert "rows were dropped" in str(agent.state().reason)
        put(server.start(), ann=1, bob=2)
        agent.until(lambda state: state.ready, "readiness", passing_ms=1_000)
        assert agent.rows() == {"ann": 1, "bob": 2}


def test_a_typing_error_in_the_address_is_refused_without_telling_the_address(folder):
    with (
        pytest.raises(ConfigProblems) as refused,
        loader_agent(folder, "{loader: {redis: 'redis://a:s3cret/x@h:x'}, format: string}"),
    ):
        pass
    assert "s3cret" not in str(refused.value)
