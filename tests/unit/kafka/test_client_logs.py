"""What passes of the Kafka clients' own messages."""

import logging

import pytest

from enrich.kafka.clients.logs import OncePerMinute

RETRIED = "Failed to acquire transactional PID from broker h:1/1: Broker: Coordinator load in progress: retrying"
AWAY = "FAIL: h:1/1: Connect to ipv4#h:1 failed: Connection refused (after 0ms in state CONNECT)"


@pytest.mark.parametrize(("message", "passed"), [(RETRIED, [False, False]), (AWAY, [True, False])])
def test_a_message_passes_once_a_minute_and_what_is_only_tried_again_never(message, passed):
    once = OncePerMinute()
    records = [logging.makeLogRecord({"msg": message}) for _ in passed]
    assert [once.filter(record) for record in records] == passed
