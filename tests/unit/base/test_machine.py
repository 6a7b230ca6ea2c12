from enum import StrEnum

import pytest

from enrich.base.errors import Fatal
from enrich.base.machine import Machine


class Door(StrEnum):
    OPEN = "open"
    SHUT = "shut"


class Push(StrEnum):
    HARD = "a hard push"
    SOFT = "a soft push"


def test_what_happens_leads_to_the_state_that_the_table_names():
    door = Machine({(Door.OPEN, Push.HARD): Door.SHUT}, Door.OPEN)
    door.happens(Push.HARD)
    assert door.state == Door.SHUT


def test_what_cannot_happen_in_a_state_is_a_bug_and_changes_nothing():
    door = Machine({(Door.OPEN, Push.HARD): Door.SHUT}, Door.OPEN)
    with pytest.raises(Fatal, match="`a soft push` cannot happen while open"):
        door.happens(Push.SOFT)
    assert door.state == Door.OPEN
