"""A disk that fills up under a store, and has space again."""

from tests.support.small_disk import assert_held


def test_on_a_full_disk_nothing_is_acknowledged_and_the_store_goes_on_when_space_returns(tmp_path):
    assert_held("tests.chaos.stores.disk_full", tmp_path)
