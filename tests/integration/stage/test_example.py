"""examples/plays.yaml as it is shipped: its topics are made, its stage runs, and each event is where the file says."""

import json
import re
import shutil
import signal
from pathlib import Path

from enrich.config import load
from enrich.kafka.records import headers_of
from tests.support.commands import enrich, enrich_process
from tests.support.host.ending import stop_agent_of
from tests.support.waiting import wait_until

EXAMPLE = Path(__file__).parents[3] / "examples" / "plays.yaml"
README = Path(__file__).parents[3] / "README.md"
TS = "2026-01-01T00:00:00Z"


def test_the_example_runs_as_shipped(cluster, stack, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", stack.bootstrap_servers)
    monkeypatch.setenv("REDIS_URL", stack.redis_url)
    file = Path(shutil.copy(EXAMPLE, tmp_path))
    monkeypatch.chdir(tmp_path)
    applied = enrich("topics", "apply", "--yes", "-c", file)
    assert applied.returncode == 0, applied.stderr
    cluster.produce("users.v1", [(b"ann", b'{"plan":"pro","region":"eu","limits":{"rps":1,"burst":2}}')])
    cluster.produce("networks.v1", [(b"10.0.0.0/8", b'{"country":"nl","asn":7}')])
    plays = [{"user_id": "ann", "ip": "10.1.2.3", "ts": TS}, {"user_id": "nobody", "ip": "::1", "ts": TS}]
    cluster.produce("plays.raw", [(b"k", json.dumps(play).encode()) for play in plays])
    try:
        with enrich_process("--log-level", "info", "run", "enrich", "-c", file) as running:

            def written():
                assert running.poll() is None, running.communicate()[1]
                found = [cluster.messages(topic) for topic in ("plays.enriched", "plays.dlq", "users.seen")]
                return found if all(found) else None

            (enriched,), (letter,), (seen,) = wait_until(written, what="all three topics")
            running.send_signal(signal.SIGTERM)
            _, told = running.communicate(timeout=180)
            assert running.returncode == 0, told
    finally:
        stop_agent_of(load(file))
    made = json.loads(enriched.value())
    assert made["_lineage"].keys() == {"user", "net"}
    assert {**made, "_lineage": None} == {
        **plays[0],
        "user": {"plan": "pro", "region": "eu"},
        "net": {"country": "nl", "asn": 7},
        "_lineage": None,
    }
    assert json.loads(letter.value()) == plays[1]
    assert (seen.key(), json.loads(seen.value())) == (b"ann", {"ts": "2026-01-01T00:00:00.000000Z", "ip": "10.1.2.3"})
    assert dict(headers_of(seen))["enrich.version"] == b"1767225600000000"


def test_the_first_screen_of_the_readme_is_what_happens(cluster, stack, spark, tmp_path, monkeypatch):
    page = README.read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (job,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    lines = dict(re.findall(r"^    (users\.v1|plays\.raw|plays\.enriched) +(.*)$", page, re.MULTILINE))
    assert len(text.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "pipeline.yaml"
    file.write_text(text.replace("localhost:9092", stack.bootstrap_servers).replace("plays", "readme"))
    applied = enrich("topics", "apply", "--yes", "-c", file)
    assert applied.returncode == 0, applied.stderr
    user, row = lines["users.v1"].split(": ", 1)
    cluster.produce("users.v1", [(user.encode(), row.encode())])
    cluster.produce("readme.raw", [(None, lines["plays.raw"].encode())])
    try:
        with enrich_process("--log-level", "info", "run", "enrich", "-c", file) as running:

            def written():
                assert running.poll() is None, running.communicate()[1]
                return cluster.messages("readme.enriched")

            (enriched,) = wait_until(written, what="the enriched play")
            running.send_signal(signal.SIGINT)
            _, told = running.communicate(timeout=180)
            assert running.returncode == 0, told
        assert enriched.value().decode() == lines["plays.enriched"]
        names = {"plays": spark.createDataFrame([(user, "So What")], "user_id string, song string")}
        exec(job, names)  # noqa: S102 - the page's own text
        assert [row.user.asDict() for row in names["enriched"].collect()] == [json.loads(row)]
    finally:
        stop_agent_of(load(file))
