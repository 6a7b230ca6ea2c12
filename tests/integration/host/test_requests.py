"""What others on the host may ask of the agent: metrics, and errands that only leave word."""

import socket
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from enrich.base.errors import Unreachable
from enrich.config import load
from enrich.host.ipc.requests import REFRESH, RequestServer, ask
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import AgentReader
from enrich.service.page import METRICS


def samples(page: bytes):
    families = text_string_to_metric_families(page.decode())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


@pytest.fixture
def reader(config):
    reader = AgentReader(load(config))
    yield reader
    reader.close()


def test_metrics_stand_on_the_unix_socket(config, produce_users, reader):
    produce_users(ann={"plan": "free"}, bob={"plan": 5})
    header = reader.wait_until_ready(deadline_s=120).header
    found = samples(ask(paths_of(load(config)).folder, "GET", METRICS))
    assert found["enrich_agent_table_ready", "test", "users"] == 1
    assert found["enrich_agent_table_rows", "test", "users"] == 1
    assert found["enrich_agent_table_quarantined_records", "test", "users"] == 1
    through = found["enrich_agent_table_complete_through_seconds", "test", "users"]
    assert through * 1000 >= header.tables["users"].complete_through
    assert found["enrich_agent_memory_bytes", "budget", "test"] == 2 << 30


def test_metrics_stand_on_a_port_where_one_is_given_and_nothing_else_does(config, reader):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config.write_text(config.read_text() + f"agent: {{metrics_port: {port}}}\n")
    reader = AgentReader(load(config))
    reader.wait_until_ready(deadline_s=120)
    address = f"http://127.0.0.1:{port}"
    with urllib.request.urlopen(address + METRICS) as answer:  # noqa: S310 - an address of our own
        assert ("enrich_agent_table_ready", "test", "users") in samples(answer.read())
    for request in (address, urllib.request.Request(address + REFRESH, method="POST")):  # noqa: S310 - the same
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(request)  # noqa: S310 - the same
    reader.close()


def test_a_port_that_is_taken_is_logged_and_stops_nothing(config, reader):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config.write_text(config.read_text() + f"agent: {{metrics_port: {taken.getsockname()[1]}}}\n")
        reader = AgentReader(load(config))
        reader.wait_until_ready(deadline_s=120)
        assert "give each pipeline of a host another" in paths_of(load(config)).log.read_text()
        reader.close()


def test_an_errand_is_run_in_a_directory_of_any_depth_and_an_absent_agent_is_unreachable(tmp_path):
    folder = tmp_path / ("deep" * 20) / ("deeper" * 20)
    folder.mkdir(parents=True)
    with pytest.raises(Unreachable, match="does not answer"):
        ask(folder, "POST", REFRESH)
    errands = []
    server = RequestServer(folder, lambda: b"", {REFRESH: lambda _: errands.append(REFRESH)})
    ask(folder, "POST", REFRESH)
    with pytest.raises(Unreachable, match="404"):
        ask(folder, "POST", "/nothing")
    server.close()
    assert errands == [REFRESH]
