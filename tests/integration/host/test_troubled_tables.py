"""A host with twenty tables of which five fail, each in a way of its own."""

import http.server
import json
import os
import subprocess
import sys
import threading

import pyarrow as pa
import pytest

from enrich.config import load
from enrich.config.wire import to_wire
from enrich.host.ipc.requests import REBUILD, ask
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import AgentReader
from enrich.host.reader.spawn import living_agent
from enrich.service.page import METRICS
from stores.clock import SystemClock
from tests.contract.codecs.decoders import framed
from tests.property.codecs.avro_values import written
from tests.support.commands import enrich, lines
from tests.support.host.ending import kill_agent_of
from tests.support.waiting import wait_until

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "plan", "type": "string"}]}
KNOWN, AWAY, REFUSED = 1, 2, 3
"""Ids of schemas, all the same one."""
HEALTHY = [f"healthy{number:02d}" for number in range(15)]
BROKEN = ["away", "refused", "killed", "unswapped", "unmerged"]
STAND_STILL = BROKEN[:4]
WHY = {
    "away": "did not answer",
    "refused": "status 403",
    "killed": "ended before the load was done",
    "unswapped": "swap met",
    "unmerged": "segments met",
}
FAULTS = "kill killed\nswap unswapped\nsegments unmerged\n"


class Registry(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Asked)
        self.answers_all = threading.Event()


class Asked(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, asked_for = self.server, int(self.path.rpartition("/")[2])
        assert isinstance(server, Registry)
        if asked_for == AWAY:
            server.answers_all.wait(600)
        is_refused = asked_for == REFUSED and not server.answers_all.is_set()
        body = json.dumps({"schema": json.dumps(SCHEMA)}).encode()
        self.send_response(403 if is_refused else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def registry():
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.answers_all.set()
        server.shutdown()
        thread.join()


class Host:
    """The pipeline, its agent, and what each table has to hold."""

    def __init__(self, cluster, stack, new_topic, registry, folder):
        self.cluster, self.registry, self.faults = cluster, registry, folder / "faults"
        self.topics = {name: new_topic(cleanup_policy="compact") for name in [*HEALTHY, *BROKEN]}
        self.rows: dict[str, dict[str, str]] = {name: {} for name in self.topics}
        self.config = folder / "pipeline.yaml"
        sections = (
            f"  {name}: {{topic: {topic}, columns: 'plan string', format: {'avro' if name in BROKEN[:2] else 'json'},"
            f" access: {'mapped' if name == 'unmerged' else 'rocks'}}}\n"
            for name, topic in self.topics.items()
        )
        self.config.write_text(
            f"name: test\nkafka: {{bootstrap_servers: '{stack.bootstrap_servers}',"
            f" registry: {{url: 'http://127.0.0.1:{registry.server_port}'}}}}\n"
            f"state_dir: {folder}/state\ntables:\n{''.join(sections)}"
        )
        self.pipeline = load(self.config)
        self.paths = paths_of(self.pipeline)
        self.faults.write_text("")

    def start(self):
        start = {"lock": str(self.paths.lock), "pipeline": to_wire(self.pipeline), "linger_s": 600}
        command = [sys.executable, "-m", "tests.support.host.troubled_agent", str(self.faults)]
        self.agent = subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        )
        assert self.agent.stdin is not None
        self.agent.stdin.write(json.dumps(start))
        self.agent.stdin.close()
        wait_until(lambda: living_agent(self.paths), what="the agent")

    def put(self, key, value, *, schemas=(KNOWN, KNOWN)):
        """One record to each topic."""
        for name, topic in self.topics.items():
            row = {"plan": f"{name} {value}"}
            schema = dict(zip(BROKEN, schemas, strict=False)).get(name)
            data = json.dumps(row).encode() if schema is None else framed(schema, written(SCHEMA, row))
            self.cluster.produce(topic, [(key.encode(), data)])
            self.rows[name][key] = row["plan"]

    def until_right(self, reader, names):
        """Waits until these tables are complete through now, and compares all that they answer."""
        now = SystemClock().now_ms()

        def are_complete():
            states = reader.header().tables
            return all((states[name].complete_through or 0) > now for name in names)

        wait_until(are_complete, what=f"all of {names} complete")
        snapshot = reader.snapshot()
        for name in names:
            keys = list(self.rows[name])
            found = snapshot.table(name).lookup(pa.array(keys), ["plan"])
            plans = [None if row is None else row["plan"] for row in found.values.to_pylist()]
            assert dict(zip(keys, plans, strict=True)) == self.rows[name]

    def gauge(self, gauge):
        """The tables for which it is 1."""
        page = ask(self.paths.folder, "GET", METRICS).decode()
        mine = [line for line in page.splitlines() if line.startswith(f"enrich_agent_table_{gauge}{{")]
        return [line.split('table="')[1].split('"')[0] for line in mine if line.endswith(" 1.0")]

    def status(self):
        return {line["table"]: line for line in lines(enrich("agent", "status", "-c", self.config, "--json"))}


@pytest.fixture
def host(cluster, stack, new_topic, registry, tmp_path):
    host = Host(cluster, stack, new_topic, registry, tmp_path)
    host.start()
    yield host
    kill_agent_of(host.pipeline)
    host.agent.wait(60)


def test_tables_that_fail_hold_up_no_others_say_why_and_come_back_by_themselves(host):
    host.put("a", "first")
    reader = AgentReader(host.pipeline, holder=os.getpid)
    reader.wait_until_ready(deadline_s=240)
    host.until_right(reader, [*HEALTHY, *BROKEN])
    # Their code may have to be compiled first, at the lowest priority.
    wait_until(lambda: host.gauge("mapped") == ["unmerged"], deadline_s=600, what="its segments")

    host.faults.write_text(FAULTS)
    for name in ("killed", "unswapped"):
        ask(host.paths.folder, "POST", REBUILD + name)
    host.put("b", "while five fail", schemas=(AWAY, REFUSED))

    def reasons():
        tables = reader.header().tables
        return {name: words for name, words in WHY.items() if words not in (tables[name].reason or "")}

    for number in range(3):
        host.put("c", f"round {number}", schemas=(AWAY, REFUSED))
        host.until_right(reader, [*HEALTHY, "unmerged"])
    wait_until(lambda: not reasons(), what="the reasons")
    stood = {name: reader.header().tables[name].complete_through for name in STAND_STILL}
    status = host.status()
    assert [name for name, table in status.items() if table["set_aside"]] == STAND_STILL
    assert {name: status[name]["next_try_s"] is None for name in BROKEN} == dict.fromkeys(STAND_STILL, False) | {
        "unmerged": True
    }
    assert host.gauge("set_aside") == STAND_STILL
    assert "set aside" in enrich("agent", "status", "-c", host.config).stdout
    doctor = lines(enrich("doctor", "-c", host.config, "--json"))
    assert [verdict["what"].split()[1] for verdict in doctor if verdict["check"] == "set_aside"] == STAND_STILL
    host.put("c", "last round", schemas=(AWAY, REFUSED))
    host.until_right(reader, [*HEALTHY, "unmerged"])
    assert {name: reader.header().tables[name].complete_through for name in STAND_STILL} == stood

    host.faults.write_text("")
    host.registry.answers_all.set()
    host.put("d", "mended")
    host.until_right(reader, [*HEALTHY, *BROKEN])
    wait_until(lambda: host.gauge("mapped") == ["unmerged"], what="its segments again")
    wait_until(lambda: not any(table.reason for table in reader.header().tables.values()), what="nothing to say")
    assert reader.header().pid == host.agent.pid
    reader.close()
