"""A driver whose slots commit uses its own transactional id all the same: brokers forget one that nobody uses."""

from enrich.base.errors import Fenced
from enrich.stage.progress import group
from enrich.stage.progress.group import StageProgress
from tests.support.stage.runs import running
from tests.support.waiting import wait_until

AT_THE_START = 3
"""How often a driver uses it until its slots are at work."""


def test_a_driver_of_slots_goes_on_using_its_id(spark, world, monkeypatch):
    asked, require_newest = [], StageProgress.require_newest

    def require_and_tell(progress, topic):
        require_newest(progress, topic)
        asked.append(topic)

    monkeypatch.setattr(group, "_SAY_USED_EVERY_S", 0.1)
    monkeypatch.setattr(StageProgress, "require_newest", require_and_tell)
    stage = world.stage("enrich", [], profile="realtime")
    with running(spark, world, stage) as run:
        wait_until(lambda: run.error or len(asked) > AT_THE_START, what="a further use")
        world.progress(stage).take_over()
        assert isinstance(run.end(), Fenced), run.error
