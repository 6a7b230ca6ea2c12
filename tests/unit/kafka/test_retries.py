import pytest

from enrich.kafka.retries import TOPIC_ID, topic_id_in
from enrich.kafka.writing.dead_letters import sender_of


def test_a_sender_has_the_id_of_the_topic_if_it_is_known() -> None:
    assert sender_of("p.sync.out", "id-1") == "p.sync.out/id-1"
    assert sender_of("p.sync.out", "") == "p.sync.out"


@pytest.mark.parametrize("hostile", [b"\xff\xfe", b"", b"a/b\n", b"x" * 65, None])
def test_whatever_others_write_into_a_retry_topic_is_no_id(hostile: bytes | None) -> None:
    assert topic_id_in([(TOPIC_ID, hostile)]) == ""
    assert topic_id_in([("other", b"id"), (TOPIC_ID, b"id-1"), (TOPIC_ID, hostile)]) == "id-1"
    assert topic_id_in([]) == ""
