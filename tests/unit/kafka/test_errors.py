import pytest
from confluent_kafka import KafkaError, KafkaException

from enrich.base.errors import BadRecord, ConfigError, CorruptState, Fatal, Fenced, Retryable, Unreachable
from enrich.kafka.clients import errors
from enrich.kafka.clients.errors import KINDS, kafka_errors, mapped

CODES = {
    name: value
    for name in dir(KafkaError)
    if name.isupper() and not name.startswith("__") and isinstance(value := getattr(KafkaError, name), int)
}


def test_every_code_of_librdkafka_stands_in_exactly_one_group():
    named = [name for _, names in errors._GROUPS for name in names.split()]
    assert sorted(named) == sorted(set(named)), "a code stands in two groups"
    assert set(named) == set(CODES)
    assert set(KINDS) == set(CODES.values())


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._ALL_BROKERS_DOWN, Unreachable),
        (KafkaError.REBALANCE_IN_PROGRESS, Retryable),
        (KafkaError.PRODUCER_FENCED, Fenced),
        (KafkaError.MSG_SIZE_TOO_LARGE, BadRecord),
        (KafkaError.OFFSET_OUT_OF_RANGE, CorruptState),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ConfigError),
        (KafkaError.UNSUPPORTED_VERSION, Fatal),
        (-99_999, Fatal),
    ],
)
def test_an_error_becomes_what_the_caller_should_do_and_says_where(code, kind):
    with pytest.raises(kind) as raised, kafka_errors("topic t"):
        raise KafkaException(KafkaError(code))
    assert type(raised.value) is kind
    assert raised.value.where == "topic t"


def test_an_unknown_code_that_the_client_calls_retriable_is_retried():
    assert type(mapped(KafkaError(-99_999, "new", retriable=True))) is Retryable


def test_a_topic_that_no_broker_can_take_yet_is_no_wrong_configuration():
    code = KafkaError.INVALID_REPLICATION_FACTOR
    away = KafkaError(code, "Unable to replicate the partition 1 time(s): All brokers are currently fenced.")
    too_many = KafkaError(code, "Unable to replicate the partition 3 time(s): only 1 broker(s) are registered.")
    assert type(mapped(away)) is Unreachable
    assert type(mapped(too_many)) is ConfigError


def test_other_exceptions_pass_through():
    with pytest.raises(ZeroDivisionError), kafka_errors():
        1 / 0  # noqa: B018 - it is the error that is wanted
