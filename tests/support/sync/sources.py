"""Sources under test: a table, a topic, and an auditor that compares them without any of the product's code."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

from enrich.base.errors import Retryable
from enrich.config import Pipeline, load_text
from enrich.dev import Addresses
from enrich.service.routes import RouteState, RouteStatus
from tests.support.kafka.topics import Cluster
from tests.support.sync.service import Running, running
from tests.support.waiting import GUARD_S, wait_until

_NUMBERS = itertools.count()
_COLUMNS = "id bigint PRIMARY KEY, plan text, price numeric(12,2), at timestamptz NOT NULL DEFAULT clock_timestamp()"


class SourceWorld:
    """A table and a topic that belong to one test."""

    def __init__(self, servers: Addresses, directory: Path, held: ExitStack) -> None:
        assert servers.bootstrap_servers and servers.postgres_dsn
        self.name = f"s{next(_NUMBERS)}"
        self.topic = f"{self.name}.rows"
        self.directory = directory
        self.dsn = servers.postgres_dsn
        self.cluster = Cluster({"bootstrap.servers": servers.bootstrap_servers})
        self.postgres: Any = held.enter_context(psycopg.connect(servers.postgres_dsn, autocommit=True))
        self._held = held
        self.origin: dict[str, Any] = {"postgres": {"dsn": self.dsn, "table": self.name, "key": ["id"]}}
        self.settings: dict[str, Any] = {"interval": "50ms"}
        self.client: dict[str, Any] = {}
        self.registry: dict[str, Any] = {}
        """The section `kafka.registry`, if there is one."""

    @property
    def known(self) -> Path:
        """Where the source keeps what it knows of the topic."""
        return self.directory / "state" / self.name / "sync-sources" / "in"

    def make_topic(self, partitions: int = 3, **config: str) -> None:
        settings = {"cleanup.policy": "compact", **{key.replace("_", "."): value for key, value in config.items()}}
        self.cluster.topics.create(self.topic, partitions=partitions, config=settings)
        wait_until(self._has_leaders, what="leaders of the topic's partitions")

    def _has_leaders(self) -> bool:
        try:
            return bool(self.cluster.topics.end_offsets(self.topic))
        except Retryable:
            return False

    def make_table(self, columns: str = _COLUMNS, rows: int = 0) -> None:
        self.execute(f"CREATE TABLE {self.name} ({columns})")
        if rows:
            self.insert(1, rows)

    def insert(self, first: int, last: int) -> None:
        row = "n, CASE WHEN n % 7 > 0 THEN 'plan \"' || n END, n / 4.0"
        self.execute(f"INSERT INTO {{}} (id, plan, price) SELECT {row} FROM generate_series({first}, {last}) n")  # noqa: S608

    def change(self, row: int, plan: str) -> None:
        self.execute("UPDATE {} SET plan = %s, at = clock_timestamp() WHERE id = %s", plan, row)

    def reconnect(self) -> None:
        """After PostgreSQL was killed."""
        self.postgres = self._held.enter_context(psycopg.connect(self.dsn, autocommit=True))

    def execute(self, statement: str, *parameters: Any) -> Any:
        """The table is `{}` in the statement."""
        return self.postgres.execute(self.filled(statement), parameters or None)

    def filled(self, statement: str) -> str:
        return statement.format(self.name)

    def with_cursor(self, **more: Any) -> None:
        self.execute("CREATE INDEX ON {} (at)")
        cursor = {"cursor": "at", "overlap": "1s", "deletes_every": "200ms", **more}
        self.origin = {"postgres": {**self.origin["postgres"], **cursor}}

    def data(self) -> dict[str, Any]:
        source = {"topic": self.topic, "format": "json", "from": self.origin, **self.settings}
        return {
            "name": self.name,
            "kafka": {
                "bootstrap_servers": self.cluster.connection["bootstrap.servers"],
                "client": self.client,
                **({"registry": self.registry} if self.registry else {}),
            },
            "state_dir": str(self.directory / "state"),
            "sync": {"listen": "127.0.0.1:0", "sources": {"in": source}},
        }

    def pipeline(self) -> Pipeline:
        return load_text(json.dumps(self.data()), {})

    @contextmanager
    def running(self) -> Iterator[Running]:
        with running(self.pipeline()) as service:
            yield service

    def run_once(self) -> RouteStatus:
        """A service's whole life: until it has read the source once and has nothing left to write."""
        data = self.data()
        # A busy machine would have time for one more, and count its rows.
        data["sync"]["sources"]["in"]["interval"] = "1h"
        with running(load_text(json.dumps(data), {})) as service:
            wait_until(lambda: has_read(service), what="a reading")
        return service.status("in")

    def file(self) -> Path:
        path = self.directory / "pipeline.yaml"
        path.write_text(json.dumps(self.data()), encoding="utf-8")
        return path

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[bytes]]:
        """An instance of the program; killed at the end of the block if it still runs."""
        command = [sys.executable, "-m", "sync_service", "-c", str(self.file())]
        path = self.directory / "service.log"
        log = path.open("ab")
        process = subprocess.Popen(command, stderr=log, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
        try:
            yield process
        except AssertionError:
            # What it waited for in vain is in none of the test's own output.
            state = "runs" if process.poll() is None else f"ended with {process.returncode}"
            sys.stderr.write(f"the service {state}; the end of its log:\n{path.read_text()[-8_000:]}\n")
            raise
        finally:
            process.kill()
            process.wait()
            log.close()

    def versions(self) -> dict[bytes, list[bytes | None]]:
        """Of each key of the topic all values that it ever had, a tombstone as None."""
        found: dict[bytes, list[bytes | None]] = {}
        for message in self.cluster.messages(self.topic):
            key, value = message.key(), message.value()
            assert isinstance(key, bytes) and not isinstance(value, str)
            found.setdefault(key, []).append(value)
        return found

    def in_topic(self) -> dict[bytes, bytes]:
        return {key: values[-1] for key, values in self.versions().items() if values[-1] is not None}

    def records(self) -> int:
        return sum(len(values) for values in self.versions().values())

    def audit(self) -> "Findings":
        """How the topic differs from the table now."""
        return compared(self.execute("SELECT * FROM {}"), self.in_topic())

    def wait_equal(self, deadline_s: float = GUARD_S) -> None:
        wait_until(lambda: not self.audit(), deadline_s=deadline_s, what="a topic like the table")


class Findings(set[str]):
    """What an auditor found: empty when all is well."""


def compared(cursor: Any, topic: Mapping[bytes, bytes]) -> Findings:
    """Rows as psycopg reads them, with `id` as the key, and the topic's last values, field by field."""
    names = [column.name for column in cursor.description]
    rows = {str(row[names.index("id")]).encode(): dict(zip(names, row, strict=True)) for row in cursor}
    found = {f"missing {key!r}" for key in rows.keys() - topic.keys()}
    found |= {f"left over {key!r}" for key in topic.keys() - rows.keys()}
    for key in rows.keys() & topic.keys():
        value = json.loads(topic[key], parse_float=Decimal)
        if value.keys() != rows[key].keys():
            found.add(f"fields of {key!r}")
        found |= {
            f"{name} of {key!r}" for name, cell in rows[key].items() if not _is_same(cell, value.get(name, "nothing"))
        }
    return Findings(found)


def _is_same(cell: Any, field: Any) -> bool:
    if isinstance(cell, datetime):
        return isinstance(field, str) and field[:1].isdigit() and datetime.fromisoformat(field) == cell
    if isinstance(cell, bool) or isinstance(field, bool) or cell is None or field is None:
        return cell is field
    return bool(cell == field)


def repeats(versions: Mapping[bytes, list[bytes | None]]) -> list[bytes]:
    """Keys that got a value, or a tombstone, that they had already."""
    return [
        key
        for key, values in versions.items()
        if values[0] is None or any(before == after for before, after in itertools.pairwise(values))
    ]


def has_read(service: Running) -> bool:
    status = service.status("in")
    return status.counters["readings"] > 0 and status.state is RouteState.running


def is_held(service: Running) -> bool:
    return service.status("in").state is RouteState.held
