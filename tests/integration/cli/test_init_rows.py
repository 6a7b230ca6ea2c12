"""What `enrich init` decides about a file is what `enrich table load` takes, and what a stage asks for."""

import json
from datetime import UTC, datetime

import pytest

from enrich.config import load
from tests.support.commands import enrich, lines

USERS = """user_id,score,limit,price,paid,born,since,zip
ann,1,-5,9.99,true,2000-02-29,2026-01-01T00:00:00Z,01234
7,2.5,10,10.50,False,1999-12-31,2026-01-01 10:00:00.5+02:00,
"""
LIMITS = [{"tenant": "a", "id": 7, "limits": {"rps": 1}}, {"tenant": "b", "id": -8, "limits": None}]
NETWORKS = "network,country\n10.0.0.0/8,nl\n2001:db8::/32,de\n"


@pytest.fixture
def loaded(cluster, stack, tmp_path, monkeypatch):
    """Does what `init` says comes next, up to the stage. Returns the records of the table's topic."""
    monkeypatch.chdir(tmp_path)

    def do(file, content, key):
        (tmp_path / file).write_text(content)
        given = ("--events", "init.raw", "--rows", file, "--key", key, "--brokers", stack.bootstrap_servers)
        (decided,) = lines(enrich("init", "--json", *given))
        *commands, run = decided["next"]
        assert run == "enrich run enrich -c pipeline.yaml"
        for command in commands:
            done = enrich(*command.split()[1:])
            assert done.returncode == 0, done.stderr
        return {message.key().decode(): json.loads(message.value()) for message in cluster.messages(decided["topic"])}

    return do


def test_all_rows_of_a_csv_file_are_taken_with_their_types(loaded):
    rows = loaded("init-users.csv", USERS, "user_id")
    since = {key: datetime.fromisoformat(row.pop("since")) for key, row in rows.items()}
    assert since == {"ann": datetime(2026, 1, 1, tzinfo=UTC), "7": datetime(2026, 1, 1, 8, 0, 0, 500_000, tzinfo=UTC)}
    assert rows == {
        "ann": {
            "score": 1.0,
            "limit": -5,
            "price": 9.99,
            "paid": True,
            "born": "2000-02-29",
            "zip": "01234",
        },
        "7": {
            "score": 2.5,
            "limit": 10,
            "price": 10.5,
            "paid": False,
            "born": "1999-12-31",
            "zip": None,
        },
    }


def test_a_composite_key_of_json_is_written_as_the_stage_asks_for_it(loaded):
    content = "".join(json.dumps(row) + "\n" for row in LIMITS)
    rows = loaded("init-limits.jsonl", content, "tenant,id")
    assert rows == {'["a",7]': {"id": 7, "limits": {"rps": 1}}, '["b",-8]': {"id": -8, "limits": None}}
    stage = load("pipeline.yaml").stages["enrich"]
    assert (stage.lookups[0].key, str(stage.source.columns)) == (("tenant", "id"), "tenant string, id bigint")


def test_networks_are_keys_as_they_stand_in_the_file(loaded):
    assert set(loaded("init-networks.csv", NETWORKS, "network")) == {"10.0.0.0/8", "2001:db8::/32"}
