"""A table that comes straight from a file is as the file was when it was last whole."""

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from enrich.host.loaders import keeper as loader_keeper
from tests.support.clock import ManualClock
from tests.support.host.loader_agent import REFRESH_MS, loader_agent


def section(path, *, key="[id]", columns="rps int", more=""):
    return f'{{loader: {{file: "{path}", key: {key}}}, columns: "{columns}"{more}}}'


def put(path: Path, text: str) -> None:
    """As one should: whole, under its name at once. It was written a while ago, so that nobody waits."""
    aside = path.with_name("aside")
    aside.write_text(text)
    a_while_ago = time.time() - 60
    os.utime(aside, (a_while_ago, a_while_ago))
    aside.replace(path)


def written(path: Path, rows) -> None:
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        lines = ["id,rps", *(f"{row['id']},{row['rps']}" for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    a_while_ago = time.time() - 60
    os.utime(path, (a_while_ago, a_while_ago))


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_rows_are_loaded_and_each_refresh_brings_what_changed_and_nothing_else(folder, tmp_path, ending):
    path = tmp_path / f"limits.{ending}"
    written(path, [{"id": "ann", "rps": 1}, {"id": "bob", "rps": 2}, {"id": "007", "rps": 3}])
    with loader_agent(folder, section(path)) as agent:
        agent.until_ready()
        assert agent.rows() == {"ann": 1, "bob": 2, "007": 3}
        before = agent.offsets()
        written(path, [{"id": "zoe", "rps": 4}, {"id": "bob", "rps": 2}, {"id": "ann", "rps": 10}])
        agent.refresh()
        assert agent.rows() == {"ann": 10, "bob": 2, "zoe": 4}
        after = agent.offsets()
        assert after["bob"] == before["bob"]
        assert sorted(after[key] for key in ("007", "ann", "zoe")) == [3, 4, 5]


def test_a_key_of_several_columns_has_their_types(folder, tmp_path):
    path = tmp_path / "limits.csv"
    put(path, 'tenant,id,rps\n"a ""b""",7,1\nc,,2\n')
    with loader_agent(folder, section(path, key="[tenant, id]", columns="id bigint, rps int")) as agent:
        state = agent.until_ready()
        assert list(agent.rows()) == ['["a \\"b\\"",7]']
        assert state.reason == "1 rows have no key: it, or a part of it, is null or of another type"


def test_a_value_that_does_not_fit_sets_its_row_aside_in_csv_and_refuses_the_other_files(folder, tmp_path):
    path = tmp_path / "limits.csv"
    put(path, 'id,rps,flag,more\nann,1,True,"{""a"":1}"\nbob,x,,\neve,007,,\nzoe,,maybe,\ndan,,,{\n')
    columns = "rps int, flag boolean, more struct<a:int>"
    with loader_agent(folder, section(path, columns=columns)) as agent:
        state = agent.until_ready()
        assert agent.rows() == {"ann": {"rps": 1, "flag": True, "more": {"a": 1}}}
        assert state.quarantined == 4
    path = tmp_path / "limits.json"
    put(path, '{"id": "ann", "rps": 1}\n{"id": "bob", "rps": "x"}\n')
    with loader_agent(folder / "json", section(path)) as agent:
        refused = agent.until(lambda state: "not a whole file" in (state.reason or ""), "the reason")
        assert "in row 1" in str(refused.reason)


def test_a_key_that_does_not_fit_its_column_is_said(folder, tmp_path):
    path = tmp_path / "limits.csv"
    put(path, "tenant,id,rps\na,7,1\nb,x,2\nc,99999999999999999999,3\n")
    with loader_agent(folder, section(path, key="[tenant, id]", columns="id bigint, rps int")) as agent:
        state = agent.until_ready()
        assert list(agent.rows()) == ['["a",7]']
        assert str(state.reason).startswith("2 rows have no key")


def test_a_missing_file_is_the_reason_and_later_its_absence_leaves_the_rows(folder, tmp_path):
    path = tmp_path / "limits.csv"
    clock = ManualClock()
    with loader_agent(folder, section(path), clock) as agent:
        agent.until(lambda state: "no such file" in (state.reason or ""), "the reason")
        put(path, "id,rps\nann,1\n")
        clock.advance(REFRESH_MS)
        agent.until_ready()
        path.unlink()
        assert agent.try_refresh("no such file").ready
        assert agent.rows() == {"ann": 1}


def test_rows_that_cannot_be_read_expire_in_their_time_though_the_clock_is_set_back(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(loader_keeper, "_DROP_AFTER_S", 0)
    path, hour = tmp_path / "limits.csv", 3_600_000
    clock = ManualClock(100 * hour)
    put(path, "id,rps\nann,1\n")
    with loader_agent(folder, section(path, more=", expire: 1h"), clock) as agent:
        agent.until_ready()
        path.unlink()
        clock.advance(-10 * hour)
        assert (agent.told_once_more().complete_through or 0) <= clock.now_ms()
        assert agent.try_refresh("no such file").ready
        clock.advance(hour)
        agent.until(lambda state: not state.ready and not agent.rows(), "the end of its rows")


def test_rows_of_the_last_agent_expire_though_the_clock_was_set_back_since(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(loader_keeper, "_DROP_AFTER_S", 0)
    path, hour = tmp_path / "limits.csv", 3_600_000
    clock, table = ManualClock(100 * hour), section(path, more=", expire: 1h")
    put(path, "id,rps\nann,1\n")
    with loader_agent(folder, table, clock) as agent:
        agent.until_ready()
    path.unlink()
    clock.advance(-10 * hour)
    with loader_agent(folder, table, clock) as agent:
        state = agent.until(lambda state: "no such file" in (state.reason or ""), "the reason")
        assert state.ready
        assert (state.complete_through or 0) <= clock.now_ms()
        clock.advance(hour)
        agent.until(lambda state: not state.ready and not agent.rows(), "the end of its rows")


def test_rows_that_were_dropped_are_not_ready_again_when_the_clock_is_set_back(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(loader_keeper, "_DROP_AFTER_S", 0)
    path, clock, hour = tmp_path / "limits.csv", ManualClock(), 3_600_000
    table = section(path, more=", expire: 1h")
    put(path, "id,rps\nann,1\n")
    with loader_agent(folder, table, clock) as agent:
        agent.until_ready()
        path.unlink()
        agent.try_refresh("no such file")
        clock.advance(hour)
        agent.until(lambda state: not state.ready and not agent.rows(), "the end of its rows")
        clock.advance(-hour)
        assert not any(agent.told_once_more().ready for _ in range(3))
    with loader_agent(folder, table, clock) as agent:
        agent.until(lambda state: "no such file" in (state.reason or ""), "the reason")
        assert not any(agent.told_once_more().ready for _ in range(3))
        put(path, "id,rps\nann,1\n")
        agent.until(lambda state: state.ready, "readiness", passing_ms=1_000)
        assert agent.rows() == {"ann": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("id,rps\nann,1\nbob,2", "its last line does not end"),
        ("id,rps\nann,1\nbob\n", "more or fewer values"),
        ("id,other\nann,1\n", "no column rps"),
        ('id,rps\nann,1\nbob,"1\neve,2\n', "a quote is not closed, of the value that begins in line 3"),
    ],
)
def test_a_file_that_is_not_whole_leaves_the_rows_and_says_why(folder, tmp_path, text, reason):
    path = tmp_path / "limits.csv"
    put(path, "id,rps\nann,1\n")
    with loader_agent(folder, section(path)) as agent:
        ready = agent.until_ready()
        put(path, text)
        held = agent.try_refresh(reason)
        assert (held.ready, held.complete_through) == (True, ready.complete_through)
        assert agent.rows() == {"ann": 1}


def test_a_file_that_is_being_written_is_waited_for(folder, tmp_path):
    path = tmp_path / "limits.csv"
    put(path, "id,rps\nann,1\nbob,2\n")
    with loader_agent(folder, section(path)) as agent:
        agent.until_ready()
        with path.open("w") as file:
            file.write("id,rps\nann,1\n")
            file.flush()
            agent.try_refresh("was written this moment")
            assert agent.rows() == {"ann": 1, "bob": 2}
            file.write("bob,20\n")
        agent.until(lambda _: agent.rows() == {"ann": 1, "bob": 20}, "the whole file", passing_ms=1_000)


def test_a_file_of_a_server_whose_clock_is_ahead_is_read_once_it_is_seen_to_rest(folder, tmp_path):
    path = tmp_path / "limits.csv"
    put(path, "id,rps\nann,1\n")
    ahead = time.time() + 3_600
    os.utime(path, (ahead, ahead))
    with loader_agent(folder, section(path)) as agent:
        agent.until(lambda state: "was written this moment" in (state.reason or ""), "the wait")
        agent.until(lambda _: agent.rows() == {"ann": 1}, "the file", passing_ms=1_000)


def test_nothing_of_a_copy_is_left_behind(folder, tmp_path):
    path = tmp_path / "limits.csv"
    put(path, "id,rps\nann,1\n")
    with loader_agent(folder, section(path)) as agent:
        agent.until_ready()
    assert [each for each in (folder / "loading").rglob("*") if each.is_file()] == []
