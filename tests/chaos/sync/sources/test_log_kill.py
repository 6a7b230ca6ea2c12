"""Random transactions of several sessions, while the source that follows their log is killed, cut off and started
again: at each quiet point the topic is the table, nothing is lost, and nothing is written twice."""

import itertools
import threading
import time
from contextlib import ExitStack, closing
from functools import partial
from random import Random
from typing import Protocol

import psycopg

from enrich.config.sections.sync.sources import slot_name
from stores.external.postgres.log.slots import Slots
from tests.support.beside import beside
from tests.support.processes import kill
from tests.support.seed import random_source, rounds
from tests.support.sync.many_tables import ManyTables, many_tables
from tests.support.sync.service import SHORT_SESSIONS
from tests.support.sync.sources import SourceWorld, repeats
from tests.support.waiting import wait_until

COLUMNS = "id bigint PRIMARY KEY, plan text, body text, n int NOT NULL DEFAULT 0"

INSERT = "INSERT INTO {} (id, plan, body) VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET plan = excluded.plan"


class Place(Protocol):
    """Where sessions write."""

    dsn: str

    def filled(self, statement: str) -> str:
        """With a table in place of `{}`."""


class AnyTable:
    """One of some tables, each time by chance: a transaction changes several."""

    def __init__(self, many: ManyTables, count: int, random: Random) -> None:
        self.dsn = many.source.dsn
        self._tables = [f"{many.schema}.t{number}" for number in range(count)]
        self._random = random

    def filled(self, statement: str) -> str:
        return statement.format(self._random.choice(self._tables))


class Session:
    """Somebody who changes the table. Each change gives its row a value that no row ever had."""

    def __init__(self, source: Place, number: int, random: Random) -> None:
        self._source = source
        self._number = number
        self._random = random
        self._count = 0

    def run(self, stopping: threading.Event) -> None:
        with psycopg.connect(self._source.dsn) as connection:
            while not stopping.wait(self._random.random() * 0.02):
                try:
                    for _ in range(self._random.choice([1, 1, 3, 200])):
                        self._change(connection)
                    if self._random.random() < 0.2:
                        connection.rollback()
                    else:
                        connection.commit()
                except (psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
                    connection.rollback()

    def _change(self, connection: psycopg.Connection) -> None:
        random, execute = self._random, partial(self._execute, connection)
        self._count += 1
        row, value = random.randrange(300), f"{self._number}-{self._count}"
        kind = random.random()
        if kind < 0.4:
            large = value * random.choice([1, 1, 2_000])
            execute(INSERT, row, value, large)
        elif kind < 0.7:
            execute("UPDATE {} SET plan = %s, n = n + 1 WHERE id = %s", value, row)
        elif kind < 0.9:
            execute("DELETE FROM {} WHERE id = %s", row)
        elif kind < 0.99:
            execute("UPDATE {} SET id = %s, plan = %s WHERE id = %s", row + 300, value, row)
        else:
            execute("SAVEPOINT s")
            execute("UPDATE {} SET plan = 'never'")
            execute("ROLLBACK TO SAVEPOINT s")

    def _execute(self, connection: psycopg.Connection, statement: str, *parameters: object) -> None:
        connection.execute(self._source.filled(statement), parameters or None)


def test_at_each_quiet_point_the_topic_is_the_table(source: SourceWorld) -> None:
    random = random_source("log kills")
    source.origin = {"postgres": {**source.origin["postgres"], "follow": "log"}}
    source.client = SHORT_SESSIONS
    source.make_topic()
    source.make_table(COLUMNS)
    name = slot_name(source.name, "in")
    # Of all rounds: a value that comes again would be one that the source has written twice.
    numbers = itertools.count()
    with ExitStack() as held:
        held.callback(source.postgres.execute, f"DROP PUBLICATION IF EXISTS {name}")
        for _ in range(rounds(1, 100)):
            sessions = [Session(source, next(numbers), Random(random.random())) for _ in range(3)]
            with ExitStack() as running:
                for session in sessions:
                    running.enter_context(beside(session.run))
                for _ in range(2):
                    before = sum(source.cluster.topics.end_offsets(source.topic).values())
                    with source.process() as process:
                        wait_until(
                            lambda: sum(source.cluster.topics.end_offsets(source.topic).values()) > before + 50,  # noqa: B023
                            what="records",
                        )
                        if random.random() < 0.5:
                            cut = (
                                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s"
                            )
                            source.postgres.execute(cut, [name])
                        threading.Event().wait(random.random())  # at any moment
                        kill(process.pid)
                if random.random() < 0.3:
                    source.execute("TRUNCATE {}")
            if random.random() < 0.3:
                source.execute(f"ALTER TABLE {{}} ADD COLUMN c{time.time_ns()} int DEFAULT 7")
            with source.process():
                source.wait_equal()
        with closing(Slots(source.dsn, name)) as slots:
            slots.drop()
    assert repeats(source.versions()) == []


TABLES = 4


def test_at_each_quiet_point_all_topics_of_a_source_are_its_tables(source: SourceWorld) -> None:
    random = random_source("log kills of many")
    source.client = SHORT_SESSIONS
    with many_tables(source) as many:
        for number in range(TABLES):
            many.make(f"t{number}", COLUMNS)
        some, numbers = many.topic("t0"), itertools.count()
        for turn in range(rounds(1, 15)):
            chosen = AnyTable(many, TABLES, random)
            sessions = [Session(chosen, next(numbers), Random(random.random())) for _ in range(3)]
            with ExitStack() as running:
                for session in sessions:
                    running.enter_context(beside(session.run))
                for _ in range(2):
                    before = written(source, some)
                    with source.process() as process:
                        wait_until(lambda: written(source, some) > before + 20, what="records")  # noqa: B023
                        many.make(f"made{turn}_{random.random():.6f}".replace(".", ""), rows=10)
                        threading.Event().wait(random.random())  # at any moment
                        kill(process.pid)
            with source.process():
                many.wait_equal()  # a table that is empty when it is first compared with its topic is held
            many.execute(f"TRUNCATE {{0}}.t{random.randrange(TABLES)}")
            many.execute(f"ALTER TABLE {{0}}.t{random.randrange(TABLES)} ADD COLUMN c{turn} int DEFAULT 7")
            with source.process():
                many.wait_equal()
        for table in many.tables():
            assert repeats(many.versions(table)) == [], table


def written(source: SourceWorld, topic: str) -> int:
    if not source.cluster.topics.exists(topic):
        return 0
    return sum(source.cluster.topics.end_offsets(topic).values())
