import pytest

from enrich.stage.run.life import NEXT, Happening, Phase
from tests.support.phases import reachable


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_can_be_reached_and_ends(phase):
    assert phase in reachable(NEXT, Phase.STARTING)
    assert Phase.ENDED in reachable(NEXT, phase)


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase != Phase.ENDED])
def test_a_stage_can_fail_in_every_phase_and_has_then_ended(phase):
    assert NEXT[phase, Happening.FAILED] == Phase.ENDED


def test_nothing_comes_after_the_end():
    assert [phase for phase, _ in NEXT if phase == Phase.ENDED] == []
