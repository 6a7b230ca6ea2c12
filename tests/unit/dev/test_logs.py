"""The servers' logs."""

from enrich.dev.processes.logs import Mark, follow, rotate, tail


def test_the_last_lines_are_shown(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\nthree\n")
    assert tail(log, 2) == ["two", "three"]
    assert tail(log, 0) == []
    assert tail(tmp_path / "none.log", 5) == []


def test_a_mark_tells_one_start_from_those_before(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("old trouble\n")
    mark = Mark(log)
    assert mark.quote(5) == ""
    with log.open("a") as file:
        file.write("new trouble\n")
    assert mark.tail(5) == ["new trouble"]
    assert mark.quote(5) == "\n  | new trouble"


def test_bytes_that_are_no_text_do_not_hide_the_rest(tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(b"\xff\xfe\nreadable\n")
    assert tail(log, 1) == ["readable"]


def test_a_large_log_is_put_aside_before_a_start(tmp_path, monkeypatch):
    monkeypatch.setattr("enrich.dev.processes.logs._ROTATE_AT", 10)
    log = tmp_path / "logs" / "a.log"
    rotate(log)
    log.write_text("0123456789ab")
    rotate(log)
    assert not log.exists()
    assert (tmp_path / "logs" / "a.log.1").read_text() == "0123456789ab"


def test_following_gives_each_added_line_once_and_whole(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("before\n")
    writes = iter(["first\nhal", "f\n", None, "third\n"])

    def next_write(_):
        text = next(writes)
        if text is None:  # put aside, as before a start
            log.unlink()
            return
        with log.open("a") as file:
            file.write(text)

    lines = follow([log, tmp_path / "later.log"], sleep=next_write)
    assert [next(lines)[1] for _ in range(3)] == ["first", "half", "third"]
