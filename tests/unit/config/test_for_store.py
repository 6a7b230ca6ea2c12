"""Where a store is can be found out without the pipeline's secrets."""

from pathlib import Path

import pytest

from enrich.config import ConfigProblems, load, load_for_store
from enrich.host.ipc.store_paths import paths_of

PIPELINE = """
name: plays
kafka:
  bootstrap_servers: "${BROKERS}"
  security: {protocol: SASL_SSL, mechanism: PLAIN, username: "${WHO}", password: "${PASSWORD}"}
state_dir: ./state
tables:
  users: {topic: users.v1, format: json, columns: "plan string"}
ingest:
  plays: {listen: "127.0.0.1:${PORT}", path: /v1/plays, topic: plays.raw, format: json, tokens: ["${TOKEN}"]}
expel:
  acme: {topic: plays.raw, to: {http: {url: "https://example.com/a", secret: "${SECRET}"}}}
observe: {token: "${TOKEN}", alarms: {webhook: "${HOOK}"}}
"""
ENVIRON = {"BROKERS": "one:9092", "WHO": "me", "PASSWORD": "x", "PORT": "8080", "TOKEN": "a-token-of-some-length"}
ENVIRON |= {"SECRET": "whsec_dGhpcyBzZWNyZXQgaXMgZm9yIHRoZSBkZW1vIG9ubHk=", "HOOK": "https://example.com/hook"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE)
    return path


def test_variables_that_do_not_decide_where_it_is_need_not_be_set(file: Path) -> None:
    found = load_for_store(file, {"BROKERS": "one:9092"})
    assert paths_of(found) == paths_of(load(file, ENVIRON))
    with pytest.raises(ConfigProblems, match="PASSWORD is not set"):
        load(file, {"BROKERS": "one:9092"})


def test_those_that_do_and_all_other_faults_are_refused(file: Path) -> None:
    with pytest.raises(ConfigProblems) as raised:
        load_for_store(file, {})
    assert [problem.key for problem in raised.value.problems] == ["kafka.bootstrap_servers"]
    file.write_text(PIPELINE.replace("tables:", "tabels:"))
    with pytest.raises(ConfigProblems, match="did you mean tables"):
        load_for_store(file, ENVIRON)
