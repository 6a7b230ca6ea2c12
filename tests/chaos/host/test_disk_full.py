"""A disk that fills up under an agent, and has space again."""

from tests.support.small_disk import assert_held


def test_on_a_full_disk_the_table_stands_still_says_why_and_goes_on_when_space_returns(stack, new_topic, tmp_path):
    topic = new_topic(cleanup_policy="compact")
    assert_held("tests.chaos.host.disk_full", tmp_path, stack.bootstrap_servers, topic)
