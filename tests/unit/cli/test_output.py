import pytest

from enrich.cli.output import time_text


@pytest.mark.parametrize("time", [1_700_000_000_000_000, -(2**63), 2**63 - 1])
def test_a_time_beyond_the_calendar_is_shown_as_a_number(time):
    assert time_text(time) == f"{time} ms"
