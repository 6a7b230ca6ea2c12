"""`enrich table export|import|verify` against a real broker, with a real agent."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from enrich.config import load
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import living_agent
from stores.snapshots import open_snapshot
from tests.support import commands
from tests.support.commands import lines
from tests.support.host.altered_rows import alter, entries_of
from tests.support.host.ending import stop_agent_of
from tests.support.waiting import wait_until


def enrich(*arguments):
    return commands.enrich("table", *arguments)


def stop(config):
    stop_agent_of(load(config))


def wipe(config):
    """The host is cold again."""
    stop(config)
    shutil.rmtree(paths_of(load(config)).folder)


def agent_log(config):
    return paths_of(load(config)).log.read_text()


@pytest.fixture
def exported(config, produce_users, tmp_path):
    produce_users(**{f"u{n}": {"plan": "free", "rps": n} for n in range(50)})
    produce_users(u1={"plan": "pro"}, u2=None)
    done = enrich("export", "users", "--to", tmp_path / "snapshots", "-c", config, "--json")
    assert done.returncode == 0, done.stderr
    (line,) = lines(done)
    assert line["rows"] == 50
    return Path(line["path"])


def rows(config):
    done = enrich("scan", "users", "-c", config, "--json")
    assert done.returncode == 0, done.stderr
    return {line["key"]: (line["value"], line["partition"], line["offset"], line["timestamp"]) for line in lines(done)}


def rows_with(config, key):
    def found():
        now = rows(config)
        return now if key in now else None

    return wait_until(found, what="the change")


def test_a_cold_host_takes_a_snapshot_in_and_reads_the_rest_of_the_topic(config, exported, produce_users, tmp_path):
    produce_users(u3=None, new={"plan": "max"})
    expected = rows_with(config, "new")
    wipe(config)
    done = enrich("import", "users", "--from", tmp_path / "snapshots", "-c", config, "--json")
    assert done.returncode == 0, done.stderr
    assert lines(done)[0]["rows"] == 51
    assert rows(config) == expected
    assert "a snapshot was taken in" in agent_log(config)
    assert enrich("verify", "users", "-c", config).returncode == 0


def test_rows_that_are_there_are_replaced_only_when_asked_for(config, exported, produce_users):
    produce_users(u3=None, new={"plan": "max"})
    expected = rows_with(config, "new")
    done = enrich("import", "users", "--from", exported, "-c", config)
    assert done.returncode == 4
    assert "51 rows on this host" in done.stderr
    done = enrich("import", "users", "--from", f"file:{exported}", "-c", config, "--yes")
    assert done.returncode == 0, done.stderr
    assert rows(config) == expected
    done = enrich("export", "users", "--to", exported.parents[2], "--keep", 1, "-c", config, "--json")
    assert lines(done)[0]["removed"] == [str(exported)]


def test_an_export_keeps_what_it_has_written_beside_one_of_a_clock_that_was_ahead(config, exported):
    ahead = exported.rename(exported.with_name(f"2999{exported.name[4:]}"))
    done = enrich("export", "users", "--to", ahead.parents[2], "--keep", 1, "-c", config, "--json")
    (line,) = lines(done)
    assert (line["removed"], line["ahead"]) == ([], [str(ahead)])
    assert sorted(ahead.parent.iterdir()) == [Path(line["path"]), ahead]
    done = enrich("export", "users", "--to", ahead.parents[2], "--keep", 1, "-c", config)
    assert f"ahead of this host's clock: {ahead}" in done.stdout
    assert ahead.exists()


def test_a_cold_host_starts_from_the_newest_good_snapshot_of_the_configured_place(config, exported, produce_users):
    config.write_text(config.read_text() + f"snapshots: {{path: {exported.parents[2]}}}\n")
    produce_users(late={"plan": "max"})
    assert enrich("export", "users", "-c", config).returncode == 0
    expected = rows_with(config, "late")
    newest = max(exported.parent.iterdir())
    assert newest != exported
    damaged = newest / "newest-00000.arrows"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    wipe(config)
    assert rows(config) == expected
    log = agent_log(config)
    assert f"{damaged.name}" in log
    assert "a snapshot is not used" in log
    assert enrich("verify", "users", "-c", config).returncode == 0


def test_a_damaged_snapshot_is_refused_before_anything_is_asked_of_the_agent(config, exported):
    file = exported / "past-00000.arrows"
    file = file if file.exists() else exported / "newest-00000.arrows"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    wipe(config)
    done = enrich("import", "users", "--from", exported, "-c", config)
    assert done.returncode == 4
    assert str(file) in done.stderr
    assert living_agent(paths_of(load(config))) is None


def test_a_snapshot_of_another_topic_definition_or_age_is_refused_by_name(config, exported, cluster, users_topic):
    text = config.read_text()
    config.write_text(text.replace("rps int", "rps string"))
    done = enrich("import", "users", "--from", exported, "-c", config)
    assert (done.returncode, "another definition" in done.stderr) == (4, True), done.stderr
    config.write_text(text)
    manifest = open_snapshot(exported).manifest
    aged = replace(manifest, complete_through=manifest.complete_through - 13 * 3_600_000)
    (exported / "manifest.json").write_bytes(aged.as_bytes())
    done = enrich("import", "users", "--from", exported, "-c", config, "--yes")
    assert (done.returncode, "the topic keeps tombstones for 86,400 s" in done.stderr) == (4, True), done.stderr
    (exported / "manifest.json").write_bytes(manifest.as_bytes())
    stop(config)
    cluster.make_again(users_topic, partitions=2)
    done = enrich("import", "users", "--from", exported, "-c", config, "--yes")
    assert (done.returncode, "deleted and recreated" in done.stderr) == (4, True), done.stderr


def test_a_place_that_is_not_built_or_not_given_or_empty_is_a_usage_error(config, tmp_path):
    done = enrich("export", "users", "--to", "s3://bucket/x", "-c", config)
    assert (done.returncode, "`s3:` are not built yet" in done.stderr) == (2, True)
    done = enrich("export", "users", "-c", config)
    assert (done.returncode, "snapshots: {path: ...}" in done.stderr) == (2, True)
    done = enrich("import", "users", "--from", tmp_path / "nowhere", "-c", config)
    assert (done.returncode, "there is no snapshot of table" in done.stderr) == (2, True)


def test_rows_that_were_altered_on_disk_are_named_and_are_a_difference(config, exported):
    done = enrich("verify", "users", "-c", config)
    assert (done.returncode, done.stdout) == (0, "table users: no difference in 50 keys\n"), done.stderr
    stop(config)
    store = paths_of(load(config)).rows
    before = entries_of(store, "users")
    entry = before[b"u5"][0]
    alter(store, "users", {b"u5": [entry._replace(payload=b'{"plan":"pro","rps":9}')], b"u6": []})
    done = enrich("verify", "users", "-c", config, "--json")
    assert done.returncode == 1, done.stderr
    *differences, summary = lines(done)
    assert {(one["difference"], one["key"]) for one in differences} == {("different", "u5"), ("missing", "u6")}
    assert differences[0]["offset"] == entry.offset
    assert summary["differences"] == 2
    done = enrich("verify", "users", "-c", config)
    assert (done.returncode, "2 differences in 50 keys" in done.stdout) == (1, True), done.stdout
    assert not [path for path in store.parents[1].iterdir() if path.name.startswith(".verify")]
