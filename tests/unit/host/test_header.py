import errno
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enrich.base.errors import ConfigError, Retryable
from enrich.config import load_text
from enrich.host.ipc import header as module
from enrich.host.ipc import store_paths
from enrich.host.ipc.header import _SLOT_SIZE, FORMAT, Header, HeaderReader, HeaderWriter, TableState
from enrich.host.ipc.store_paths import paths_of

PIPELINE = """
name: plays
kafka: {bootstrap_servers: "localhost:9092"}
state_dir: /nowhere
tables:
  users: {topic: users.v1, format: json, columns: "plan string"}
"""


def header(counter, **tables):
    return Header("store", 1, counter, heartbeat_ms=5, pid=7, started=8, pid_namespace=9, tables=tables)


def test_a_reader_sees_the_newest_state_of_all_tables(tmp_path):
    writer = HeaderWriter(tmp_path / "header")
    reader = HeaderReader(tmp_path / "header")
    assert reader.read() is None
    for counter in range(5):
        written = header(
            counter, users=TableState(True, 99, 3, progress={"rows": 1.5}), limits=TableState(reason="loading")
        )
        writer.write(written)
        assert reader.read() == written


def test_of_many_tables_only_those_whose_state_is_another_one_are_encoded_and_decoded(tmp_path, monkeypatch):
    writer, reader = HeaderWriter(tmp_path / "header"), HeaderReader(tmp_path / "header")
    states = {f"t{number}": TableState(True, 99, number) for number in range(200)}
    writer.write(header(1, **states))
    encoded, line = [], module._line

    def counted(content):
        encoded.append(content)
        return line(content)

    monkeypatch.setattr(module, "_line", counted)
    states["t7"] = TableState(True, 100, 7)
    written = header(2, **states)
    writer.write(written)
    assert [one["rows"] for one in encoded if "rows" in one] == [7]
    seen = reader.read()
    assert seen is not None
    assert (seen.tables["t7"], len(vars(seen.tables)["_known"])) == (states["t7"], 1)
    assert seen == written


def test_tables_may_be_others_than_before(tmp_path):
    writer, reader = HeaderWriter(tmp_path / "header"), HeaderReader(tmp_path / "header")
    for names in (["a", "b"], ["b"], ["c", "a"]):
        written = header(1, **{name: TableState(rows=number) for number, name in enumerate(names)})
        writer.write(written)
        assert reader.read() == written


def test_a_new_writer_goes_on_where_the_last_one_ended(tmp_path):
    HeaderWriter(tmp_path / "header").write(header(1))
    reader = HeaderReader(tmp_path / "header")
    writer = HeaderWriter(tmp_path / "header")
    assert reader.read() == header(1)
    writer.write(header(2))
    assert reader.read() == header(2)


@given(data=st.data())
def test_whatever_happens_to_one_slot_the_other_answers(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("h") / "header"
    writer = HeaderWriter(path)
    writer.write(header(1))
    writer.write(header(2))
    torn = data.draw(st.integers(0, 1))
    with path.open("r+b") as file:
        file.seek(torn * _SLOT_SIZE + data.draw(st.integers(0, 40)))
        file.write(data.draw(st.binary(min_size=1, max_size=300)))
    seen = HeaderReader(path).read()
    assert seen in (header(1), header(2))


def test_a_file_that_is_still_being_made_is_not_there_yet(tmp_path):
    (tmp_path / "header").write_bytes(b"short")
    with pytest.raises(FileNotFoundError):
        HeaderReader(tmp_path / "header")


def test_a_reader_notices_that_the_file_was_replaced_or_deleted(tmp_path):
    path = tmp_path / "header"
    HeaderWriter(path).write(header(1))
    reader = HeaderReader(path)
    assert not reader.is_replaced()
    path.unlink()
    assert reader.is_replaced()
    HeaderWriter(path)
    assert reader.is_replaced()
    assert reader.read() == header(1)


@pytest.mark.parametrize("letter", ["x", "\N{CHECK MARK}"])
def test_reasons_that_are_too_long_for_all_tables_are_cut_and_nothing_else(tmp_path, letter):
    tables = {f"t{number}": TableState(True, number, number, reason=letter * 600) for number in range(600)}
    HeaderWriter(tmp_path / "header").write(header(1, **tables))
    read = HeaderReader(tmp_path / "header").read()
    assert read is not None
    assert {name: (state.ready, state.complete_through, state.rows) for name, state in read.tables.items()} == {
        f"t{number}": (True, number, number) for number in range(600)
    }
    assert {str(state.reason)[:5] for state in read.tables.values()} == {letter * 5}


def test_more_tables_than_there_is_room_for_are_no_damage_and_the_last_state_stays(tmp_path):
    writer = HeaderWriter(tmp_path / "header")
    writer.write(header(1))
    with pytest.raises(ConfigError, match="fewer tables"):
        writer.write(header(2, **{f"t{number}": TableState() for number in range(_SLOT_SIZE // 50)}))
    assert HeaderReader(tmp_path / "header").read() == header(1)


def as_written_by(release):
    """What agents of other releases have written into their headers."""
    known = vars(header(3)) | {"tables": None}
    state = {"ready": True, "rows": 5}
    if release == "one text":
        return json.dumps({**known, "tables": {"users": state}}).encode()
    if release == "a line a table":
        return "\n".join(map(json.dumps, [known, ["users"], state])).encode()
    return json.dumps({**known, "tables": FORMAT + 1, "more": 7}).encode() + b"\n?"


@pytest.mark.parametrize("release", ["one text", "a line a table", "a later one"])
def test_of_an_agent_of_another_release_it_is_known_which_process_it_is(tmp_path, release):
    path, content = tmp_path / "header", as_written_by(release)
    HeaderWriter(path).close()
    with path.open("r+b") as file:
        file.seek(_SLOT_SIZE)
        file.write(module._frame(1, content) + content)
    assert HeaderReader(path).read() == header(3)


def test_stores_of_agents_that_write_other_headers_are_apart(monkeypatch):
    pipeline = load_text(PIPELINE)
    before = paths_of(pipeline)
    monkeypatch.setattr(store_paths, "HEADER_FORMAT", FORMAT + 1)
    assert paths_of(pipeline).folder.parent == before.folder.parent
    assert paths_of(pipeline) != before


def test_the_file_takes_its_room_on_the_disk_at_once(tmp_path):
    HeaderWriter(tmp_path / "header")
    assert (tmp_path / "header").stat().st_blocks * 512 >= 2 * _SLOT_SIZE


def test_a_full_disk_is_told_as_one(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(Retryable, match="the disk is full"):
        HeaderWriter(tmp_path / "header")
