import pytest

from enrich.host.follow.life import NEXT, Happening, Phase
from tests.support.phases import reachable


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_can_be_reached_and_left_for_following(phase):
    assert phase in reachable(NEXT, Phase.WAITING)
    assert Phase.FOLLOWING in reachable(NEXT, phase)


@pytest.mark.parametrize("phase", Phase)
def test_a_table_can_fail_in_every_phase_and_is_then_set_aside(phase):
    assert NEXT[phase, Happening.FAILED] == Phase.SET_ASIDE


def test_a_table_that_is_set_aside_reads_nothing_before_its_pause_is_over():
    ways_out = {happening for (phase, happening), after in NEXT.items() if phase == Phase.SET_ASIDE != after}
    assert ways_out == {Happening.PAUSE_OVER, Happening.PAUSE_OVER_UNDECODED}
