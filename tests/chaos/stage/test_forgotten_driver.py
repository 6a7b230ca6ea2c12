"""Brokers forget a transactional id that nobody has used for some days, by default a week."""

from contextlib import closing

import pytest

from enrich.base.errors import Fenced
from enrich.dev import Stack
from enrich.dev.servers import kafka
from enrich.stage.progress.group import StageProgress
from tests.support.kafka.topics import Cluster
from tests.support.waiting import wait_until


@pytest.fixture
def forgetful(tmp_path, monkeypatch):
    """A cluster that forgets within seconds."""
    monkeypatch.setitem(kafka._SETTINGS, "transactional.id.expiration.ms", "500")
    monkeypatch.setitem(kafka._SETTINGS, "transaction.remove.expired.transaction.cleanup.interval.ms", "200")
    stack = Stack(tmp_path / "stack")
    yield Cluster({"bootstrap.servers": stack.up().bootstrap_servers})
    stack.reset(yes=True)


def test_a_driver_whose_id_the_brokers_have_forgotten_ends(forgetful):
    """Its client would be told so for good. A new one could shut out whoever has the id now."""
    forgetful.topics.create("events", partitions=1)
    with closing(StageProgress(forgetful.connection, "pipeline", "enrich")) as progress:
        progress.take_over()
        progress.require_newest("events")
        wait_until(
            lambda: any(each.value() is None for each in forgetful.messages("__transaction_state")),
            what="the end of the id",
        )
        with pytest.raises(Fenced, match=r"transactional\.id\.expiration\.ms"):
            progress.require_newest("events")
        with pytest.raises(Fenced, match=r"transactional\.id\.expiration\.ms"):
            _commit(progress)
    with closing(StageProgress(forgetful.connection, "pipeline", "enrich")) as progress:
        progress.take_over()
        progress.require_newest("events")


def _commit(progress: StageProgress) -> None:
    progress.reached({"events": {0: 1}})  # by a thread: it may have been told before this returns
    progress.commit()
