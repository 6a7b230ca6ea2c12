"""Two Spark stages, the edges, the agent and two write-backs under faults of every kind; at the end an audit by topics.

Nothing that was acknowledged may be missing anywhere, and the observer, the audit and the receivers must agree on it.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from enrich.dev import Stack
from tests.chaos.chain.whole import EDGES, STAGES, Whole, goes_on
from tests.support.beside import beside
from tests.support.commands import enrich_process
from tests.support.edge.expel import Endpoint, origins_in
from tests.support.observe.observing import verdicts_in
from tests.support.processes import all_frozen, kill
from tests.support.seed import SOAK, random_source, rounds
from tests.support.servers.restarted import Servers
from tests.support.spark.quick_jvm import quick_jvm
from tests.support.waiting import GUARD_S, wait_until

PROGRAMS = (*EDGES, *STAGES, "sync", "observer")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    stack = Stack(tmp_path / "stack")
    try:
        yield Servers(stack, stack.up(["redis", "postgres"]))
    finally:
        stack.reset(yes=True)


class Faults:
    def __init__(self, chain: Whole, endpoint: Endpoint) -> None:
        self._chain = chain
        self._endpoint = endpoint

    def all(self) -> list[str]:
        kills = [f"kill {name}" for name in (*PROGRAMS, "agent")]
        servers = [f"server {name}" for name in ("kafka", "redis", "postgres")]
        return [*kills, *servers, "freeze", "endpoint"]

    def happen(self, what: str) -> None:
        kind, _, name = what.partition(" ")
        if kind == "kill" and name == "agent":
            pid = self._chain.world.agent_pid()
            if pid is not None:
                kill(pid)
        elif kind == "kill":
            self._chain.kill(name)
            self._chain.start(name)
        elif kind == "server":
            self._chain.servers.kill(name)
            self._chain.servers.restart()
        elif kind == "freeze":
            with all_frozen(self._chain.pid(name) for name in ("expel", "ingest", "sync")):
                threading.Event().wait(5)  # the fault itself: for so long nothing of them moves
        else:
            self._endpoint_fails()

    def _endpoint_fails(self) -> None:
        """For as long as it takes until somebody is told."""
        self._endpoint.decide = lambda _: 503
        wait_until(lambda: self._alarm("breaker/"), what="an alarm of the breaker")
        self._endpoint.decide = lambda _: 200

    def _alarm(self, cause: str) -> bool:
        return any(alarm["alarm"].startswith(cause) for alarm in self._chain.alarms())


def test_nothing_is_lost_and_all_who_judge_agree(servers: Servers, tmp_path: Path) -> None:
    source, acknowledged = random_source("a whole chain"), set[int]()
    with Endpoint() as endpoint, ExitStack() as held:
        chain = Whole(servers, endpoint, tmp_path, held)
        held.callback(chain.world.close)
        chain.start("observer")
        chain.observer.until_ready()
        began = int(time.time()) // 60
        for name in (*EDGES, "sync", *STAGES):
            chain.start(name)
        faults = Faults(chain, endpoint)

        def send(stopping: threading.Event) -> None:
            first = 0
            while not stopping.wait(0.1):
                if chain.send(first, 50):
                    acknowledged.update(range(first, first + 50))
                first += 50

        with beside(send):
            goes_on(chain, endpoint, 500)
            # In the short run: one of each kind, in any order.
            kinds = ["kill prepare", f"kill {source.choice([*EDGES, 'send', 'sync', 'observer', 'agent'])}", "endpoint"]
            kinds += [f"server {source.choice(['kafka', 'redis', 'postgres'])}", "freeze"]
            for _ in range(rounds(1, 12)):
                for what in source.sample(faults.all() if SOAK else kinds, 5):
                    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")
                    faults.happen(what)
                    goes_on(chain, endpoint, 500)
        ended = int(time.time()) // 60
        came = {json.loads(message.value() or b"")["id"] for message in chain.world.cluster.messages(chain.raw)}
        assert came >= acknowledged
        endpoint.wait_for(came)
        rows = {number for number in came if number % 10 == 0}

        def have_rows() -> bool:
            chain.tend()
            return chain.rows_in_redis() == chain.rows_in_postgres() == rows

        def settled() -> bool:
            chain.tend()
            found = {(verdict.route, verdict.minute): verdict for verdict in verdicts_in(bootstrap, name)}
            ways = {route for route, _ in found}
            wanted = [(way, minute) for way in ways for minute in range(began, ended + 1)]
            return len(ways) == 3 and all(key in found and found[key].state == "settled" for key in wanted)

        name, bootstrap = chain.world.document["name"], str(servers.addresses.bootstrap_servers)
        wait_until(have_rows, what="the rows in both stores")
        wait_until(
            settled, what=lambda: f"verdicts on the minutes from {began} to {ended}: {_standing(bootstrap, name)}"
        )
        newest = {(verdict.route, verdict.minute): verdict for verdict in verdicts_in(bootstrap, name)}
        assert sum(verdict.total("lost") for verdict in newest.values()) == 0
        assert not [alarm for alarm in chain.alarms() if alarm["alarm"].startswith("loss/")]
        receipts = tmp_path / "receipts"
        delivered = origins_in(request.seen for request in endpoint.got if 200 <= request.status <= 299)
        receipts.write_text("\n".join(f"{topic}/{partition}/{offset}" for topic, partition, offset in delivered))
        for day in sorted({minute // 1_440 for minute in range(began, ended + 1)}):
            _audited(chain, time.strftime("%Y-%m-%d", time.gmtime(day * 86_400)), receipts)
        # Repeats are counted, by what went beyond the first time.
        repeated = sum(v.total("duplicates") for v in newest.values() if v.route.endswith("> acme"))
        assert repeated <= delivered.total() - len(delivered)


def _standing(bootstrap: str, name: str) -> str:
    newest = {(verdict.route, verdict.minute): verdict for verdict in verdicts_in(bootstrap, name)}
    return "; ".join(f"{way} {minute} is {each.state}: {each.reason}" for (way, minute), each in newest.items())


def _audited(chain: Whole, day: str, receipts: Path) -> None:
    quick = ["--conf", f"spark.driver.extraJavaOptions={quick_jvm()}", "--conf", "spark.sql.shuffle.partitions=2"]
    options = ["--day", day, "--delivered", receipts, "--json", *quick]
    with enrich_process("observe", "audit", "-c", chain.file, *options) as process:
        out, err = process.communicate(timeout=GUARD_S)
    told = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 0, (err, [each for each in told if each["lost"] or each["differences"]])
    assert told and all(each["verdict"] is not None for each in told)
