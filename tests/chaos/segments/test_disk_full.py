"""A disk that fills up under segments, and has space again."""

from tests.support.small_disk import assert_held


def test_on_a_full_disk_nothing_shows_and_the_writer_goes_on_when_space_returns(tmp_path):
    assert_held("tests.chaos.segments.disk_full", tmp_path)
