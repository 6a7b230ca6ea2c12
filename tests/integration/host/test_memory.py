"""The budget arrives where memory is taken, and what is taken can be read."""

import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

from enrich.config import load
from enrich.host.ipc.requests import ask
from enrich.host.ipc.store_paths import paths_of
from enrich.host.memory_use import private_bytes
from enrich.host.reader.reading import AgentReader
from enrich.service.page import METRICS

MIB = 2**20


def gauges(pipeline):
    page = ask(paths_of(pipeline).folder, "GET", METRICS).decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    return {s.labels["part"]: s.value for s in samples if s.name == "enrich_agent_memory_bytes"}


def test_an_agent_and_a_load_with_the_least_budget_keep_their_shares(config, cluster, users_topic):
    config.write_text(config.read_text() + "memory: {budget: 423MiB, max_readers: 1}\n")
    cluster.produce(users_topic, ((f"u{n}".encode(), b'{"plan": "%d"}' % n) for n in range(50_000)))
    pipeline = load(config)
    reader = AgentReader(pipeline)
    header = reader.wait_until_ready(deadline_s=180).header
    found = gauges(pipeline)
    assert found["budget"] == 423 * MIB
    assert found["agent_share"] + found["loads_share"] + found["readers_share"] <= found["budget"]
    assert 0 < found["block_cache"] + found["memtables"] + found["table_readers"] < found["agent_share"]
    assert 0 < private_bytes([header.pid]) < found["agent_share"]
    assert 0 < found["agent"] + found["loads"] < found["agent_share"] + found["loads_share"]
    reader.close()
    status = [sys.executable, "-m", "enrich", "agent", "status", "-c", str(config)]
    assert "budget 423 MiB" in subprocess.run(status, capture_output=True, text=True, check=True).stdout
