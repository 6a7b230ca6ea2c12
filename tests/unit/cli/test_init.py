"""`enrich init` as people use it: what it writes is good, explains itself, and is written over nothing."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from enrich.admin.starting.metadata import read_metadata
from enrich.config import load
from tests.support.commands import enrich, lines

USERS = """user_id,plan,score,limit,price,paid,born,since,zip,id20,note
ann,pro,1,-5,9.99,true,2000-02-29,2026-01-01T00:00:00Z,01234,12345678901234567890,
bob,free,2.5,10,10.50,False,1999-12-31,2026-01-01 10:00:00.5+02:00,99999,1,
"""
TYPES = {
    "plan": "string",
    "score": "double",
    "limit": "bigint",
    "price": "decimal(18,2)",
    "paid": "boolean",
    "born": "date",
    "since": "timestamp",
    "zip": "string",
    "id20": "string",
    "note": "string",
}
GIVEN = ("--events", "plays.raw", "--rows", "users.csv", "--key", "user_id")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BROKERS", "broker:9092")
    (tmp_path / "users.csv").write_text(USERS)
    return tmp_path


def made(*arguments):
    (decided,) = lines(enrich("init", "--json", *arguments))
    assert enrich("config", "check", "-c", decided["file"]).returncode == 0
    return decided


def test_types_are_guessed_from_all_rows_and_the_file_says_so(folder):
    assert made(*GIVEN)["columns"] == TYPES
    table = load("pipeline.yaml").tables["users"]
    assert dict(str(column).split(" ") for column in table.columns.columns) == TYPES
    assert "Guessed from the 2 rows of users.csv" in (folder / "pipeline.yaml").read_text()
    assert "No row has a value for note: taken as text" in (folder / "pipeline.yaml").read_text()


def test_the_file_joins_the_events_of_the_topic_by_their_field(folder):
    made(*GIVEN, "--event-key", "user.id", "--output", "plays.new", "--name", "shop", "--as", "who")
    pipeline = load("pipeline.yaml")
    stage = pipeline.stages["enrich"]
    assert (pipeline.name, pipeline.kafka.bootstrap_servers) == ("shop", "broker:9092")
    assert (stage.source.topic, stage.outputs, stage.dlq) == ("plays.raw", ("plays.new",), "shop.dlq")
    assert str(stage.source.columns) == "user struct<id:string>"
    (lookup,) = stage.lookups
    assert (lookup.table, lookup.key, lookup.as_) == ("users", ("user.id",), "who")


def test_what_stands_there_as_a_comment_is_good_once_it_is_none(folder):
    made(*GIVEN)
    file = folder / "pipeline.yaml"
    text, number = re.subn(r"# ((history|freshness|lineage|replay): )", r"\1", file.read_text())
    assert number == 4
    file.write_text(text)
    done = enrich("config", "check", "-c", file)
    assert done.returncode == 0, done.stdout


def test_the_pages_and_headings_that_it_names_are_there(folder, request):
    made(*GIVEN)
    pages = set(re.findall(r"docs/[\w-]+\.md", (folder / "pipeline.yaml").read_text()))
    assert len(pages) >= 4
    assert {page for page in pages if not (request.config.rootpath / page).exists()} == set()


def test_the_next_commands_are_told_in_their_order(folder):
    done = enrich("init", *GIVEN)
    commands = [" ".join(line.split()[:3]) for line in done.stdout.split("next:\n")[1].splitlines()]
    assert commands == [
        "enrich dev up",
        "export BROKERS=127.0.0.1:... #",
        "enrich topics apply",
        "enrich table load",
        "enrich run enrich",
    ]
    given = made(*GIVEN, "--force", "--brokers", "a:1,b:2")
    assert given["next"] == [
        "enrich topics apply --yes -c pipeline.yaml",
        "enrich table load users users.csv --key user_id --yes -c pipeline.yaml",
        "enrich run enrich -c pipeline.yaml",
    ]


def test_rows_of_json_have_nested_columns_and_keys_of_several_types(folder):
    rows = [
        {"id": 7, "tenant": "a", "limits": {"rps": 1, "tags": ["x"]}, "at": "2026-01-01T00:00:00Z", "no": {}},
        {"id": 8, "tenant": "b", "limits": None, "at": None, "x": 1.5},
    ]
    (folder / "limits.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ("--events", "calls", "--rows", "limits.jsonl", "--key", "tenant,id", "--brokers", "${KAFKA:-a:1}")
    # A number that is a part of the key stays a column: the file has no other way to say it.
    assert made(*given)["columns"] == {
        "id": "bigint",
        "limits": "struct<rps:bigint,tags:array<string>>",
        "at": "timestamp",
        "x": "double",
    }
    assert str(load("pipeline.yaml").stages["enrich"].source.columns) == "tenant string, id bigint"


def test_names_that_yaml_or_spark_would_read_otherwise_come_out_as_they_are(folder):
    odd = ["1.5e3", "a b", "x${HOME}", 'it\'s, "so"', "`", "not", "ä: #"]
    quoted = ",".join('"' + name.replace('"', '""') + '"' for name in odd)
    (folder / "true.csv").write_text(f"current_user,{quoted.replace('1.5e3', 'e3')}\n{',' * len(odd)}\n")
    decided = made("--events", "1e5", "--rows", "true.csv", "--key", "current_user", "--output", "null")
    assert list(decided["columns"]) == ["e3", *odd[1:]]
    pipeline = load("pipeline.yaml")
    assert pipeline.tables["true"].columns.names == ("e3", *odd[1:])
    assert pipeline.stages["enrich"].source.topic == "1e5"
    assert pipeline.stages["enrich"].lookups[0].key == ("`current_user`",)


def test_a_row_never_replaces_a_field_of_the_event(folder):
    (folder / "device.csv").write_text("device,model\n1,x\n")
    assert made("--events", "e", "--rows", "device.csv", "--key", "device")["as"] == "device_row"
    refused = enrich("init", "--force", "--events", "e", "--rows", "device.csv", "--key", "device", "--as", "Device")
    assert refused.returncode == 2
    assert "the row would replace it" in refused.stderr


def test_keys_that_are_networks_are_found_by_addresses(folder):
    (folder / "nets.csv").write_text("network,country\n10.0.0.0/8,nl\n2001:db8::/32,de\n")
    assert made("--events", "e", "--rows", "nets.csv", "--key", "network", "--event-key", "ip")["key_kind"] == "cidr"
    assert load("pipeline.yaml").tables["nets"].key == "cidr"
    (folder / "nets.csv").write_text("network,country\n10.0.0.0/8,nl\n1/2,de\n")
    assert made("--force", "--events", "e", "--rows", "nets.csv", "--key", "network")["key_kind"] == "exact"


def test_nothing_is_written_over(folder):
    (folder / "pipeline.yaml").write_text("mine")
    refused = enrich("init", *GIVEN)
    assert refused.returncode == 4
    assert "--force" in refused.stderr
    assert (folder / "pipeline.yaml").read_text() == "mine"
    made(*GIVEN, "--force")
    assert sorted(path.name for path in folder.iterdir()) == ["pipeline.yaml", "users.csv"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.csv", None, ("there is no such file", "files here: users.csv")),
        ("rows.txt", b"a,b\n", ("does not say its type", ".csv")),
        ("rows.csv", b"", ("the file is empty", "first line names the columns")),
        ("rows.csv", b"ann,1\nbob,2\n", ("seems to be a row, not a header", "put a line")),
        ("rows.csv", b"user_id,\nann,x\n", ("a name is empty",)),
        ("rows.csv", b"user_id,a,a\n1,2,3\n", ("column a is there twice",)),
        ("rows.csv", b"user_id,a,A\n1,2,3\n", ("columns a and A differ in case only",)),
        ("rows.csv", b"user_id;a\n1;2\n", ("separated by semicolons",)),
        ("rows.csv", b"name,plan\nann,x\n", ("there is no column user_id", "name, plan")),
        ("rows.csv", b"user_ids,plan\nann,x\n", ("there is no column user_id", "did you mean user_ids?")),
        ("rows.csv", b"user_id\nann\n", ("the key and no other column",)),
        ("rows.csv", b"user_id,a\nann,x\nbob,\xe9\n", ("line 3 is not UTF-8 text", "save the file as UTF-8")),
        ("rows.csv", "user_id,a\nann,x\n".encode("utf-16"), ("UTF-16", "save it as UTF-8")),
        ("rows.csv", b"user_id,a\nann,x,y\n", ("more or fewer values", "in row 2")),
        ("rows.csv", b"user_id,a\nann,x", ("last line does not end", "end the file with a newline")),
        ("rows.jsonl", b'[{"user_id": "ann"}]\n', ("one array", "jq")),
        ("rows.jsonl", b"user_id,a\n", ("cannot be read as JSON",)),
        ("rows.jsonl", b'{"user_id": "a", "x": 1}\n{"x": "y"}\n', ("field x is number in one row and string",)),
        ("rows.jsonl", b'{"user_id": 1.5, "x": 1}\n', ("user_id is double: it cannot be a key",)),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_what_to_do(folder, name, content, says):
    if content is not None:
        (folder / name).write_bytes(content)
    done = enrich("init", "--events", "plays.raw", "--rows", name, "--key", "user_id")
    assert done.returncode == 2
    assert all(part in done.stderr for part in says), done.stderr
    assert not (folder / "pipeline.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "--events, --rows, --key"),
        ((*GIVEN, "--events", "a b"), "expected a topic name"),
        ((*GIVEN, "--output", "plays.raw"), "plays.raw would be for events and for output"),
        ((*GIVEN, "--name", "-x"), "expected a name"),
        ((*GIVEN, "--brokers", "nowhere"), "expected servers such as host:9092"),
        ((*GIVEN, "--event-key", "a,b"), "2 fields for it"),
        ((*GIVEN, "--event-key", "a..b"), "names no field"),
        ((*GIVEN, "--event-key", "a\nb"), "names no field"),
        ((*GIVEN, "--rows", "\udcff.csv"), "name is not UTF-8"),
        ((*GIVEN, "--key", "plan,plan"), "occurs twice"),
        ((*GIVEN, "--key", "plan,zip", "--event-key", "a,a.b"), "cannot hold a.b and be a key itself"),
        ((*GIVEN, "-c", "a\nb.yaml"), "name cannot be printed"),
        ((*GIVEN, "-c", "."), "this is a directory"),
        ((*GIVEN, "-c", "no/pipeline.yaml"), "there is no such directory"),
        ((*GIVEN, "-c", "users.csv/pipeline.yaml"), "there is no such directory"),
    ],
)
def test_a_wrong_flag_is_refused_and_nothing_is_written(folder, arguments, says):
    done = enrich("init", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert [path.name for path in folder.iterdir()] == ["users.csv"]


def test_a_place_where_nothing_can_be_written_is_named():
    # Not even root can make files there.
    done = enrich("init", *GIVEN, "-c", "/proc/pipeline.yaml")
    assert done.returncode == 2
    assert "the file cannot be written" in done.stderr


def test_on_a_terminal_it_asks_for_what_is_missing_and_again_after_a_wrong_answer(folder):
    ours, its = pty.openpty()
    answers = ["no topic", "plays.raw", "", "", "nowhere.csv", "users.csv", "user", "user_id", "listener"]
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    command = [sys.executable, "-m", "enrich", "init", "--json"]
    done = subprocess.run(command, stdin=its, capture_output=True, text=True, check=False)
    os.close(its)
    os.close(ours)
    assert done.returncode == 0, done.stderr
    decided = json.loads(done.stdout)
    assert (decided["events"], decided["output"], decided["pipeline"]) == ("plays.raw", "plays.enriched", "plays")
    assert (decided["key"], decided["event_key"]) == (["user_id"], ["listener"])
    for asked in ("expected a topic name", "there is no such file", "did you mean user_id?"):
        assert asked in done.stderr
    assert load("pipeline.yaml").stages["enrich"].lookups[0].key == ("listener",)


def test_a_large_file_is_read_to_its_end(folder):
    rows = "".join(f"u{number},{number}\n" for number in range(400_000))
    (folder / "many.csv").write_text(f"id,number\n{rows}last,none\n")
    found = read_metadata(folder / "many.csv")
    assert (found.rows, found.column("number").type) == (400_001, "string")
