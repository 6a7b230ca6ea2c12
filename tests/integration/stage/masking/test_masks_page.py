"""The recipes of docs/masks.md as they stand there: tables of a database come out masked, into topics and into files,
and `masks check` says how."""

import hmac
import json
import re
from pathlib import Path

from enrich.config import load
from tests.support.commands import enrich, enrich_process, lines
from tests.support.host.ending import stop_agent_of
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[4] / "docs" / "masks.md"
KEY = "a key of the recipe"


def test_the_recipe_masks_routes_and_deletes(cluster, stack, spark, tmp_path, monkeypatch):
    monkeypatch.setenv("BROKERS", stack.bootstrap_servers)
    monkeypatch.setenv("MASK_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "highway.yaml"
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file.write_text(text)
    applied = enrich("topics", "apply", "--yes", "-c", file)
    assert applied.returncode == 0, applied.stderr
    row = {"id": 7, "email": "ann@x.org", "name": "Ann", "plan": "pro", "password": "secret"}
    card = {"card_number": "4111-1234-5678", "owner": "ann@x.org", "valid_until": "2027-01"}
    cluster.produce("cdc.app.users", [(b"7", json.dumps(row).encode()), (b"8", json.dumps(row).encode()), (b"8", None)])
    cluster.produce("cdc.app.cards", [(b"1", json.dumps(card).encode())])
    topics = ("online.users", "online.cards", "offline.pro_users")
    try:
        with enrich_process("--log-level", "info", "run", "route", "-c", file) as running:

            def written():
                assert running.poll() is None, running.communicate()[1]
                found = [cluster.messages(topic) for topic in topics]
                return found if sum(map(len, found)) == 8 else None

            users, cards, pro = wait_until(written, what="all records of the routes")
    finally:
        stop_agent_of(load(file))
    hashed = hmac.digest(KEY.encode(), b"ann@x.org", "sha256").hex()
    newest = {message.key(): message.value() for message in users}
    assert newest.keys() == {b"7", b"8"}
    assert newest[b"8"] is None
    assert json.loads(newest[b"7"]) == {"id": 7, "email": hashed, "name": "***", "plan": "pro"}
    newest = {message.key(): message.value() for message in cards}
    assert newest[b"8"] is None, "a tombstone takes every route"
    assert json.loads(newest[b"1"]) == {"card_number": "****5678", "owner": hashed, "valid_until": "2027-01"}
    assert {message.key(): message.value() for message in pro}[b"8"] is None
    checked = enrich("masks", "check", "-c", file, "--json")
    assert checked.returncode == 1, checked.stderr
    found = {(each["topic"], each["column"]): (each["mask"], each["by"]) for each in lines(checked)}
    assert found["cdc.app.users", "email"] == ("hmac", "app.users.email")
    assert found["cdc.app.users", "password"] == ("withhold", None)
    assert {key for key, (_, by) in found.items() if by is None} == {("cdc.app.users", "password")}
    people = enrich("masks", "check", "-c", file)
    assert "nobody: the default" in people.stdout
    monkeypatch.setenv("LAKE", str(tmp_path / "lake"))
    (script,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for _ in range(2):  # the second time there is nothing new
        exec(script, {})  # noqa: S102 - of our own page
    changes = [row.asDict() for row in spark.read.parquet(str(tmp_path / "lake" / "changes")).collect()]
    kept = sorted((each["key"], each["id"], each["plan"], each["is_deleted"]) for each in changes if each["key"] == "7")
    assert kept == [("7", 7, "pro", False)]
    assert max((each["offset"], each["is_deleted"]) for each in changes if each["key"] == "8")[1]
    in_files = b"".join(each.read_bytes() for each in (tmp_path / "lake").rglob("*") if each.is_file())
    assert b"pro" in in_files
    assert not [word for word in (b"ann@x.org", b"Ann", b"secret", b"4111") if word in in_files]
