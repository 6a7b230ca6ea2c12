import signal

import pytest

from enrich.stage.spark.session import stage_session
from tests.support.spark.quick_jvm import quick_jvm
from tests.support.stage.world import SLOW_POLLING, StageWorld


@pytest.fixture(scope="session")
def spark():
    """One for all files: a start and the first queries take ten seconds of processor time."""
    settings = {"spark.driver.extraJavaOptions": quick_jvm(), "spark.sql.shuffle.partitions": "2", **SLOW_POLLING}
    # Spark takes Ctrl-C for itself and never gives it back, in a process that runs all other tests too.
    on_interrupt = signal.getsignal(signal.SIGINT)
    session = stage_session("tests", master="local[2]", settings=settings)
    signal.signal(signal.SIGINT, on_interrupt)
    yield session
    session.stop()


@pytest.fixture
def world(cluster, tmp_path):
    world = StageWorld(cluster, tmp_path)
    yield world
    world.close()
