"""A table whose rows are loaded when they are looked up: once, again when old, kept while the source is away."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from enrich.host.on_demand.keeper import OnDemandKeeper
from stores.errors import Unreachable
from stores.table import Seq
from tests.support.clock import ManualClock
from tests.support.host.loader_agent import LoaderAgent, loader_agent
from tests.support.seed import rounds
from tests.support.servers.rows_by_key import RowsByKey, rows_by_key
from tests.support.stores.directories import fast_directory
from tests.support.waiting import wait_until

DAY_MS = 86_400_000


def section(source: RowsByKey, more: str = "") -> str:
    return f'{{loader: {{http: "{source.url}"}}, on_demand: true, columns: "rps int"{more}}}'


def keeper(agent: LoaderAgent) -> OnDemandKeeper:
    return agent.agent.on_demand["limits"]


def want(agent: LoaderAgent, *keys: str) -> None:
    keeper(agent).want([key.encode() for key in keys])


def until_rows(agent: LoaderAgent, passing_ms: int = 0, **rows: int) -> None:
    agent.until(lambda _: agent.rows() == rows, f"the rows {rows}", passing_ms=passing_ms)


@pytest.fixture
def folder():
    with fast_directory() as directory:
        yield directory


def test_what_is_wanted_is_loaded_once_and_nothing_else_is(folder):
    with rows_by_key(ann={"rps": 1}, bob={"rps": 2}, eve={"rps": 3}) as source:
        with loader_agent(folder, section(source)) as agent:
            assert agent.until_ready().rows == 0
            want(agent, "ann", "nobody")
            want(agent, "ann")
            until_rows(agent, ann=1)
            agent.until(lambda _: source.asked["nobody"] == 1, "the question")
            for _ in range(3):
                want(agent, "ann", "nobody")
                agent.state()
            until_rows(agent, ann=1)
        assert source.asked == {"ann": 1, "nobody": 1}


def test_a_row_that_is_old_is_served_until_the_new_one_is_there(folder):
    with rows_by_key(ann={"rps": 1}) as source, loader_agent(folder, section(source)) as agent:
        want(agent, "ann")
        until_rows(agent, ann=1)
        source.rows["ann"] = {"rps": 2}
        want(agent, "ann")
        agent.state()
        assert source.asked["ann"] == 1
        keep_time_moving(agent)
        source.gate.clear()
        want(agent, "ann")
        agent.until(lambda _: source.asked["ann"] == 2, "the reload")
        assert agent.rows() == {"ann": 1}
        source.gate.set()
        until_rows(agent, ann=2)
        del source.rows["ann"]
        keep_time_moving(agent)
        want(agent, "ann")
        until_rows(agent)


def keep_time_moving(agent: LoaderAgent) -> None:
    """Past `refresh`."""
    agent.clock.advance(120_000)
    agent.state()


def test_while_the_source_is_away_rows_are_served_until_they_expire_even_by_the_next_agent(folder):
    clock = ManualClock()
    with rows_by_key(ann={"rps": 1}) as source:
        one = section(source, ", refresh: 2m, expire: 1d")
        with loader_agent(folder, one, clock) as agent:
            want(agent, "ann")
            until_rows(agent, ann=1)
            source.stop()
            keep_time_moving(agent)
            want(agent, "ann", "new")
            state = agent.until(lambda state: "rows cannot be loaded" in (state.reason or ""), "the reason")
            assert state.ready
            assert agent.rows() == {"ann": 1}
        with loader_agent(folder, one, clock) as agent:
            agent.until_ready()
            assert agent.rows() == {"ann": 1}
            clock.advance(DAY_MS)
            want(agent, "ann")  # and it is tried again and again
            until_rows(agent, passing_ms=10_000)
            source.start()
            want(agent, "ann")
            until_rows(agent, ann=1)
            agent.until(lambda state: state.reason is None, "the end of the trouble")


def test_the_next_agent_knows_how_old_rows_are(folder):
    clock = ManualClock()
    with rows_by_key(ann={"rps": 1}) as source:
        with loader_agent(folder, section(source), clock) as agent:
            want(agent, "ann")
            until_rows(agent, ann=1)
        source.rows["ann"] = {"rps": 2}
        clock.advance(119_000)
        with loader_agent(folder, section(source), clock) as agent:
            agent.until_ready()
            want(agent, "ann")
            agent.state()
            assert source.asked["ann"] == 1
            clock.advance(1_000)
            want(agent, "ann")
            until_rows(agent, ann=2)


def test_a_row_has_the_time_of_its_load_however_late_the_store_takes_it(folder):
    with rows_by_key(ann={"rps": 1}) as source, loader_agent(folder, section(source)) as agent:
        agent.until_ready()
        loaded_ms = agent.clock.now_ms()
        want(agent, "ann")
        wait_until(lambda: keeper(agent)._loads.counts.loads == 1, what="the row")
        agent.clock.advance(DAY_MS)  # on a full disk the agent takes nothing
        until_rows(agent, ann=1)
        assert abs(agent.versions()["ann"].timestamp - loaded_ms) < 60_000


def test_a_row_from_before_the_clock_was_set_back_is_loaded_again_once_it_is_used(folder):
    clock = ManualClock(10 * DAY_MS)
    with rows_by_key(ann={"rps": 1}) as source:
        with loader_agent(folder, section(source), clock) as agent:
            want(agent, "ann")
            until_rows(agent, ann=1)
        source.rows["ann"] = {"rps": 2}
        clock.advance(-DAY_MS)
        with loader_agent(folder, section(source), clock) as agent:
            agent.until_ready()
            assert agent.rows() == {"ann": 1}
            want(agent, "ann")
            until_rows(agent, ann=2)


def test_a_row_that_comes_while_the_next_agent_looks_what_has_expired_stays(folder):
    clock = ManualClock()
    expiring = ", refresh: 1h, expire: 1d"
    with rows_by_key(ann={"rps": 1}) as source:
        with loader_agent(folder, section(source, expiring), clock) as agent:
            want(agent, "ann")
            until_rows(agent, ann=1)
        source.rows["ann"] = {"rps": 2}
        clock.advance(DAY_MS)
        with loader_agent(folder, section(source, expiring), clock) as agent:
            keeper(agent).wait([b"ann"], 0.001)  # it does not wait for as long as the agent looks
            wait_until(lambda: keeper(agent)._loads.counts.loads == 1, what="the row")
            agent.until_ready()
            until_rows(agent, ann=2)


def test_beyond_max_entries_those_go_that_were_used_longest_ago(folder):
    rows = {f"k{number}": {"rps": number} for number in range(30)}
    with rows_by_key(**rows) as source, loader_agent(folder, section(source, ", max_entries: 10")) as agent:
        agent.until_ready()
        for number in range(30):
            want(agent, f"k{number}")
            agent.until(lambda _: f"k{number}" in agent.rows(), "the row")  # noqa: B023
            assert source.asked[f"k{number}"] == 1
        until_rows(agent, passing_ms=1_000, **{f"k{number}": number for number in range(20, 30)})


def test_who_waits_waits_for_what_is_there_and_what_is_not(folder):
    with rows_by_key(ann={"rps": 1}) as source, loader_agent(folder, section(source)) as agent:
        agent.until_ready()
        source.gate.clear()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(keeper(agent).wait, [b"ann", b"nobody"], 60.0)
            agent.until(lambda _: sum(source.asked.values()) == 2, "both questions")
            assert not waiting.done()
            source.gate.set()
            agent.until(lambda _: waiting.done(), "the end of the wait")
            assert isinstance(waiting.result(), Seq)
        assert agent.rows() == {"ann": 1}


def test_who_waits_for_many_keys_does_not_look_at_all_of_them_whenever_one_comes(folder, monkeypatch):
    rows = {f"k{number}": {"rps": number} for number in range(300)}
    looked, is_settled = [], OnDemandKeeper._is_settled

    def look(keeper, key):
        looked.append(key)
        return is_settled(keeper, key)

    monkeypatch.setattr(OnDemandKeeper, "_is_settled", look)
    with rows_by_key(**rows) as source, loader_agent(folder, section(source)) as agent, ThreadPoolExecutor(1) as pool:
        agent.until_ready()
        waiting = pool.submit(keeper(agent).wait, [key.encode() for key in rows], 600.0)
        agent.until(lambda _: waiting.done(), "the answer")
        assert len(agent.rows()) == 300
    assert len(looked) < 5 * 300


def test_who_waits_when_the_agent_ends_is_told_to_ask_the_next_one(folder):
    with rows_by_key(ann={"rps": 1}) as source, loader_agent(folder, section(source)) as agent:
        agent.until_ready()
        source.gate.clear()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(keeper(agent).wait, [b"ann"], 600.0)
            agent.until(lambda _: source.asked["ann"] == 1, "the question")
            agent.agent.close()
            with pytest.raises(Unreachable):
                waiting.result(60)


def test_an_answer_that_is_no_row_does_not_keep_an_expired_one(folder):
    expiring = ", refresh: 1h, expire: 1d"
    with rows_by_key(ann={"rps": 1}) as source, loader_agent(folder, section(source, expiring)) as agent:
        want(agent, "ann")
        until_rows(agent, ann=1)
        source.answers["ann"] = (200, b"[]")
        agent.clock.advance(DAY_MS)
        want(agent, "ann")
        until_rows(agent)


def test_a_storm_waits_here_and_what_is_too_much_is_counted(folder):
    keys = rounds(1_000, 100_000)
    kept = keys // 10
    more = f", max_entries: {kept}, demand: {{per_second: 1000, parallel: 3}}"
    with rows_by_key() as source, loader_agent(folder, section(source, more)) as agent:
        agent.until_ready()
        source.gate.clear()
        want(agent, *(f"k{number}" for number in range(keys)))
        state = agent.until(lambda state: state.progress["keys_given_up"] == keys - kept, "what is too much")
        assert state.progress["keys_waiting"] == kept
        wait_until(lambda: sum(source.asked.values()) == 3, what="what is under way")
        source.gate.set()
        agent.until(lambda state: state.progress["keys_waiting"] == 0, "the end of the storm")
        assert source.most_at_once == 3
        assert max(source.asked.values()) == 1
        assert sum(source.asked.values()) == kept


DEEP = b'{"rps": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    "answer",
    [(200, b"[1]"), (200, b'{"rps": "many"}'), (200, b"{"), (200, DEEP)],
    ids=["no object", "another type", "half", "deep"],
)
def test_an_answer_that_is_no_row_costs_no_other_row_and_not_the_old_one(folder, answer):
    with rows_by_key(ann={"rps": 1}, bob={"rps": 2}) as source, loader_agent(folder, section(source)) as agent:
        want(agent, "ann")
        until_rows(agent, ann=1)
        source.answers["ann"] = answer
        keep_time_moving(agent)
        want(agent, "ann", "bob")
        agent.until(lambda _: source.asked["ann"] >= 2, "the reload")
        until_rows(agent, ann=1, bob=2)
        agent.until(lambda state: "answers are no rows" in (state.reason or ""), "the reason")


def test_keys_that_are_no_part_of_a_path_ask_for_nothing(folder):
    with rows_by_key() as source, loader_agent(folder, section(source)) as agent:
        agent.until_ready()
        hostile = ["", ".", "..", "../admin", "a/b?c#d", "x" * 2_000, "\r\nhost: evil", "\N{SNOWMAN}"]
        want(agent, *hostile)
        agent.until(lambda state: len(source.asked) >= 4 and state.progress["keys_waiting"] == 0, "all answers")
        assert set(source.asked) == {"../admin", "a/b?c#d", "\r\nhost: evil", "\N{SNOWMAN}"}


def test_the_table_is_ready_once_all_keys_of_the_preload_are_there_and_stays_so(folder, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text("ann\nnobody\nbob\n")
    clock = ManualClock()
    with rows_by_key(ann={"rps": 1}, bob={"rps": 2}) as source:
        one = section(source, f", preload: {{file: {json.dumps(str(keys))}}}")
        source.gate.clear()
        with loader_agent(folder, one, clock) as agent:
            state = agent.until(lambda state: "to_come" in state.progress, "the keys")
            assert (state.ready, state.progress["to_come"]) == (False, 3)
            source.gate.set()
            agent.until_ready()
            assert agent.rows() == {"ann": 1, "bob": 2}
        source.stop()
        with loader_agent(folder, one, clock) as agent:
            agent.until_ready()
            assert agent.rows() == {"ann": 1, "bob": 2}


def test_a_file_of_keys_that_is_missing_is_the_reason(folder, tmp_path):
    with rows_by_key() as source:
        one = section(source, f", preload: {{file: {json.dumps(str(tmp_path / 'none'))}}}")
        with loader_agent(folder, one) as agent:
            state = agent.until(lambda state: "keys to preload" in (state.reason or ""), "the reason")
            assert not state.ready
            assert str(tmp_path / "none") in str(state.reason)


def test_tombstones_of_what_had_to_go_do_not_pile_up_and_the_table_stays_ready(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("enrich.host.on_demand.keeper._MOST_TOMBSTONES", 5)
    (tmp_path / "keys.txt").write_text("k0\n")
    more = f", max_entries: 4, preload: {{file: {json.dumps(str(tmp_path / 'keys.txt'))}}}"
    rows = {f"k{number}": {"rps": number} for number in range(40)}
    with rows_by_key(**rows) as source, loader_agent(folder, section(source, more)) as agent:
        agent.until_ready()
        ready = []

        def seen(state):
            ready.append(state.ready)
            return state

        for start in range(0, 40, 4):
            keys = {f"k{number}" for number in range(start, start + 4)}
            want(agent, *sorted(keys))
            agent.until(lambda state: seen(state) and keys <= agent.rows().keys(), "the rows")  # noqa: B023
            agent.clock.advance(11_000)
            seen(agent.state())
        left = {f"k{number}": number for number in range(36, 40)}
        agent.until(lambda state: seen(state) and agent.rows() == left, f"the rows {left}", passing_ms=1_000)
        agent.until(lambda state: seen(state).rows <= 15, "rows without the old tombstones", passing_ms=1_000)
    assert all(ready)
    assert threading.active_count() < 50
