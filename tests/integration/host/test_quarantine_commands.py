"""`enrich quarantine list|show`: what could not become a row is kept, named and shown, also after the agent's death."""

from enrich.config import load
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import living_agent
from tests.support.commands import enrich, lines
from tests.support.processes import kill

WRONG = "plan: expected text, got a whole number"


def test_records_in_quarantine_are_listed_by_reason_and_shown_whole(config, cluster, users_topic, produce_users):
    produce_users(ann={"plan": "free"})
    wrong = b'{"plan": 5, "rps": 7}'
    cluster.produce(users_topic, [(b"bob", wrong), (b"\xff", b"\x00\xfe"), (b"bob", wrong)])

    listed = lines(enrich("quarantine", "list", "users", "-c", config, "--json"))
    assert [list(record) for record in listed] == [["table", "topic", "partition", "offset", "reason", "timestamp"]] * 3
    assert {(record["table"], record["topic"]) for record in listed} == {("users", users_topic)}
    assert sorted(record["reason"] for record in listed).count(WRONG) == 2
    assert lines(enrich("quarantine", "list", "-c", config, "--json")) == listed  # of all tables
    people = enrich("quarantine", "list", "-c", config).stdout
    assert people.startswith("table users:")
    (group,) = [line for line in people.splitlines() if WRONG in line]
    assert [cell.strip() for cell in group.split("│")][2:4] == ["2", "2"]

    # The count is the store's: it outlives the agent, and what comes later is added.
    header = living_agent(paths_of(load(config)))
    assert header is not None
    kill(header.pid)
    cluster.produce(users_topic, [(b"zoe", b"no json")])
    assert len(lines(enrich("quarantine", "list", "users", "-c", config, "--json"))) == 4
    (status,) = lines(enrich("agent", "status", "-c", config, "--json"))
    assert status["quarantined"] == 4

    places = {record["reason"]: f"{record['partition']}/{record['offset']}" for record in listed}
    (bob,) = lines(enrich("quarantine", "show", "users", places.pop(WRONG), "-c", config, "--json"))
    assert (bob["key"], bob["value"]) == ("bob", wrong.decode())
    assert (bob["decoded"], bob["failed"]) == ({"rps": 7}, {"plan": WRONG})
    (binary,) = places.values()
    text = enrich("quarantine", "show", "users", binary, "-c", config).stdout
    assert "hex 00 fe" in text
    assert "hex ff" in text


def test_what_is_not_in_quarantine_is_said_and_a_misspelt_place_is_a_usage_error(config, produce_users):
    produce_users(ann={"plan": "free"})
    listed = enrich("quarantine", "list", "users", "-c", config)
    assert (listed.returncode, listed.stdout) == (0, "nothing is in quarantine\n")
    done = enrich("quarantine", "show", "users", "0/77", "-c", config)
    assert (done.returncode, done.stderr) == (1, "0/77 is not in the quarantine of table users\n")
    for paths in ("1/", "-1/2"):
        done = enrich("quarantine", "show", "users", "-c", config, "--", paths)
        assert done.returncode == 2, done
        assert "PARTITION/OFFSET" in done.stderr
    assert enrich("quarantine", "list", "nope", "-c", config).returncode == 2
