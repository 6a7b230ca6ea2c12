import pytest

from enrich.stage.run.life import NEXT, Happening, Phase


def reachable(first):
    found, left = {first}, [first]
    while left:
        state = left.pop()
        new = {after for (before, _), after in NEXT.items() if before == state} - found
        found |= new
        left += new
    return found


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_can_be_reached_and_ends(phase):
    assert phase in reachable(Phase.STARTING)
    assert Phase.ENDED in reachable(phase)


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase != Phase.ENDED])
def test_a_stage_can_fail_in_every_phase_and_has_then_ended(phase):
    assert NEXT[phase, Happening.FAILED] == Phase.ENDED


def test_nothing_comes_after_the_end():
    assert [phase for phase, _ in NEXT if phase == Phase.ENDED] == []
