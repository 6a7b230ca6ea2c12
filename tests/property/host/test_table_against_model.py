"""Whatever happens to a topic, its agent and its store: after each step the rows are those of a dict."""

import itertools
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from enrich.base.errors import Retryable
from enrich.config import load_text
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import AgentReader
from enrich.host.reader.spawn import stop_agent
from enrich.host.reader.views import FreshView
from enrich.kafka import new_producer
from stores.clock import SystemClock
from tests.support.host.ending import stop_agent_of
from tests.support.kafka.topics import Cluster
from tests.support.processes import kill
from tests.support.seed import rounds
from tests.support.waiting import wait_until

STEPS = rounds(150, 5_000)
LIVES, STEPS_OF_A_LIFE = rounds(6, 35), rounds(37, 250)
"""Several lives, since hypothesis gives each only some of the rules, and ends one that would have many more steps."""
EAGER_CLEANER = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.001",
    # So short that the run sees tombstones vanish; an agent that was away for half of it must load anew.
    "delete.retention.ms": "10000",
}
KEYS = [f"key-{number}" for number in range(25)]
CALM_STEPS = 20
"""Between two violent steps, which take seconds each."""

_numbers = itertools.count()


class TableLife(RuleBasedStateMachine):
    cluster: Cluster
    servers: str
    folder: Path
    steps: int = 0

    def __init__(self) -> None:
        super().__init__()
        number = next(_numbers)
        self.topic = f"model-{self.folder.name}-{number}"
        self.cluster.topics.create(self.topic, partitions=3, config=EAGER_CLEANER)
        self.pipeline = load_text(
            f"name: model{number}\nkafka: {{bootstrap_servers: '{self.servers}'}}\nstate_dir: {self.folder}\n"
            f"tables: {{users: {{topic: {self.topic}, format: json, columns: 'plan string, rps int'}}}}\n"
        )
        self.paths = paths_of(self.pipeline)
        self.reader = AgentReader(self.pipeline)
        self.idle_reader = AgentReader(self.pipeline)
        self.model: dict[str, dict[str, object]] = {}
        self.calm = 0

    def teardown(self) -> None:
        self.reader.close()
        self.idle_reader.close()
        stop_agent_of(self.pipeline)

    @initialize(rows=st.lists(st.sampled_from(KEYS)))
    def fill(self, rows: list[str]) -> None:
        self._produce([(key, {"plan": "first", "rps": 0}) for key in rows])

    @rule(
        key=st.sampled_from(KEYS),
        plan=st.none() | st.text(max_size=8),
        rps=st.none() | st.integers(-(2**31), 2**31 - 1),
    )
    def update(self, key: str, plan: str | None, rps: int | None) -> None:
        self._produce([(key, {"plan": plan, "rps": rps})])

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: str) -> None:
        self._produce([(key, None)])

    @rule(rows=st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 9)), min_size=1, max_size=60))
    def update_many(self, rows: list[tuple[str, int | None]]) -> None:
        self._produce([(key, None if rps is None else {"plan": "many", "rps": rps}) for key, rps in rows])

    @rule(number=st.integers(0, 5), value=st.sampled_from([b"no json", b"", b'{"rps": "five"}', b"[]", b"\xff"]))
    def poison(self, number: int, value: bytes) -> None:
        # Under keys of its own: the cleaner would keep it in place of the row before, and a new load miss that.
        self.cluster.produce(self.topic, [(f"poison-{number}".encode(), value)])

    @rule(key=st.sampled_from(KEYS), rps=st.integers(0, 9), commit=st.booleans())
    def transact(self, key: str, rps: int, commit: bool) -> None:
        producer = new_producer(self.cluster.connection, **{"transactional.id": self.topic})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.topic, json.dumps({"plan": "both", "rps": rps}).encode(), key.encode())
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
            self.model[key] = {"plan": "both", "rps": rps}
        else:
            producer.abort_transaction(30)
        # A commit returns before its markers stand in the topic; the next transaction waits for them.
        producer = new_producer(self.cluster.connection, **{"transactional.id": self.topic})
        producer.init_transactions(30)

    @precondition(lambda self: self.calm >= CALM_STEPS)
    @rule()
    def kill_the_agent(self) -> None:
        self._violently(lambda: kill(self.reader.header().pid))

    @precondition(lambda self: self.calm >= CALM_STEPS)
    @rule()
    def stop_the_agent(self) -> None:
        self._violently(lambda: stop_agent(self.paths, self.reader.header(), deadline_s=120))

    @precondition(lambda self: self.calm >= CALM_STEPS)
    @rule()
    def delete_the_store(self) -> None:
        self._violently(lambda: shutil.rmtree(self.paths.folder, ignore_errors=True))

    @precondition(lambda self: self.calm >= CALM_STEPS)
    @rule()
    def make_the_topic_again(self) -> None:
        self._violently(self._make_again)

    @invariant()
    def the_rows_are_those_of_the_model(self) -> None:
        type(self).steps += 1
        self.calm += 1
        asked_at = SystemClock().now_ms()

        def complete() -> bool:
            self.reader.refresh()
            state = self.reader.header().tables["users"]
            return state.ready and (state.complete_through or 0) > asked_at

        wait_until(complete, what=f"completeness of {self.topic}")
        assert self._rows(self.reader) == self.model
        if self.steps % 10 == 0:  # it has many publications to catch up with
            assert self._rows(self.idle_reader) == self.model

    def _produce(self, rows: list[tuple[str, dict[str, object] | None]]) -> None:
        self.cluster.produce(
            self.topic, [(key.encode(), None if row is None else json.dumps(row).encode()) for key, row in rows]
        )
        for key, row in rows:
            self.model.pop(key, None)
            if row is not None:
                self.model[key] = row

    def _violently(self, act: Callable[[], object]) -> None:
        self.calm = 0
        act()

    def _make_again(self) -> None:
        topics = self.cluster.topics
        topics.delete(self.topic)
        wait_until(lambda: not topics.exists(self.topic), what="the topic's end")
        topics.create(self.topic, partitions=3, config=EAGER_CLEANER)
        self.model.clear()

    def _rows(self, reader: AgentReader) -> dict[str, object]:
        """By a look-up of every key; what a scan has must be the same."""

        tables: list[FreshView] = []

        def have_table() -> bool:
            with suppress(Retryable):  # loaded anew at this moment
                tables.append(reader.snapshot().table("users"))
            return bool(tables)

        wait_until(have_table, what="the table")
        (table,) = tables
        found = table.lookup(pa.array(KEYS), ["plan", "rps"])
        rows = {key: row for key, row in zip(KEYS, found.values.to_pylist(), strict=True) if row is not None}
        assert {version.key.decode() for version in table.scan() if version.value is not None} == set(rows)
        return rows


def test_after_each_step_the_rows_are_those_of_a_dict(cluster, stack, tmp_path):
    class Life(TableLife):
        pass

    Life.cluster, Life.servers, Life.folder = cluster, stack.bootstrap_servers, tmp_path
    # A failing run is repeated by its seed: to shrink it would take hours, and other steps would have other timing.
    how = settings(
        max_examples=LIVES,
        stateful_step_count=STEPS_OF_A_LIFE,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Life, settings=how)
    assert Life.steps >= STEPS
