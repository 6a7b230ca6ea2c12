"""Set-up of the whole run: the seed, hypothesis, and the real servers that tests share."""

import gc
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest
from hypothesis import HealthCheck, settings

from enrich.base.errors import EnrichError
from enrich.dev import Addresses, Stack, temporary_directory
from tests.support.kafka.quick_broker import make_brokers_quick, shared_brokers
from tests.support.kafka.topics import Cluster
from tests.support.seed import SEED, SOAK, rounds
from tests.support.turns import Recorder, left_to_others, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile(
    "run",
    max_examples=rounds(50, 2_000),
    deadline=None,  # a noisy machine is no bug; timings live in bench/
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("run")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--allow-missing",
        action="store_true",
        help="skip what needs a server that cannot be started here, instead of failing",
    )
    parser.addoption(
        "--in-turn",
        action="store_true",
        help="of the long tests of each room run a sixth, by the seed",
    )
    parser.addoption("--record-long", action="store_true", help="record which tests are long, for --in-turn")


def pytest_configure(config: pytest.Config) -> None:
    # For the workers, which start later: one seed for the whole run.
    os.environ["ENRICH_TEST_SEED"] = str(SEED)
    # Ignored in a run that a script started in the background, and then by every process that a test starts: those that
    # are sent it, to see how they end, would go on for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    make_brokers_quick()
    if config.getoption("--record-long") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


def pytest_report_header() -> str:
    return _run_description()


def _run_description() -> str:
    return f"seed: {SEED} (make test SEED={SEED} repeats the run); {'soak' if SOAK else 'quick'} rounds"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--in-turn"):
        left = left_to_others([item.nodeid for item in items], recorded(), SEED)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
        items[:] = [item for item in items if item.nodeid not in left]
    # Hypothesis takes its randomness from the seed of the run, so that one number repeats everything.
    for item in items:
        function = getattr(item, "function", None)
        if function is not None and hasattr(function, "hypothesis"):
            hypothesis.seed(SEED)(function)


def pytest_collection_finish() -> None:
    # What was imported and collected stays: looking through it again and again took a tenth of the workers' time.
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(_run_description())
    if _skipped_unasked(terminalreporter):
        terminalreporter.write_line("a skipped test counts as failed without --allow-missing", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.exitstatus == pytest.ExitCode.OK and reporter is not None and _skipped_unasked(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _skipped_unasked(reporter: pytest.TerminalReporter) -> bool:
    return bool(reporter.stats.get("skipped")) and not reporter.config.getoption("--allow-missing")


def _started(config: pytest.Config, what: str, start: Callable[[], Addresses]) -> Addresses:
    """What `start` returns. A server that cannot be had is a failure, unless the run allows it."""
    try:
        return start()
    except EnrichError as error:
        reason = f"{what} is missing: {error}"
    if config.getoption("--allow-missing"):
        pytest.skip(reason)
    pytest.fail(reason, pytrace=False)


@pytest.fixture(scope="session")
def own_directory() -> Iterator[Stack]:
    with temporary_directory() as stack:
        yield stack


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest, own_directory: Stack) -> Addresses:
    """Broker and Redis for the whole run. What a test makes in them has names of its own."""
    return _started(request.config, "the embedded stack", lambda: _up(own_directory))


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest, own_directory: Stack) -> Addresses:
    """The same with PostgreSQL, for the tests of external stores."""
    return _started(request.config, "the embedded stack with PostgreSQL", lambda: _up(own_directory, "postgres"))


def _up(directory: Stack, *servers: str) -> Addresses:
    with shared_brokers():
        return directory.up(servers)


@pytest.fixture(scope="session")
def cluster(stack: Addresses) -> Cluster:
    assert stack.bootstrap_servers is not None
    return Cluster({"bootstrap.servers": stack.bootstrap_servers})


_NUMBERS = itertools.count()


@pytest.fixture
def new_topic(cluster: Cluster, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topics that belong to this test alone."""

    def create(*, partitions: int = 1, **config: str) -> str:
        name = f"t{next(_NUMBERS)}.{request.node.originalname[:80]}"
        settings_ = {key.replace("_", "."): value for key, value in config.items()}
        cluster.topics.create(name, partitions=partitions, config=settings_)
        return name

    return create


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic()


@pytest.fixture(scope="module")
def spark() -> Iterator["SparkSession"]:
    """A local Spark with the Kafka connector, for one module of tests."""
    from tests.support.spark.session import local_spark

    session = local_spark()
    yield session
    session.stop()
