import pytest

from tests.support.stage.world import StageWorld


@pytest.fixture
def world(cluster, tmp_path):
    world = StageWorld(cluster, tmp_path)
    yield world
    world.close()
