"""Maps librdkafka's errors to ours: every error code is in one group, by what the caller should do."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from enrich.base.errors import (
    BadRecord,
    ConfigError,
    CorruptState,
    EnrichError,
    Fatal,
    Fenced,
    Retryable,
    Unreachable,
)
from enrich.kafka.clients.ending import is_over

_UNREACHABLE = """
    _ALL_BROKERS_DOWN _DESTROY_BROKER _MSG_TIMED_OUT _RESOLVE _TIMED_OUT _TIMED_OUT_QUEUE _TRANSPORT
    BROKER_NOT_AVAILABLE COORDINATOR_NOT_AVAILABLE LEADER_NOT_AVAILABLE NETWORK_EXCEPTION REBOOTSTRAP_REQUIRED
    REQUEST_TIMED_OUT
"""
_RETRYABLE = """
    _ASSIGNMENT_LOST _ASSIGN_PARTITIONS _BAD_MSG _CONFLICT _FAIL _INTR _IN_PROGRESS _ISR_INSUFF _MAX_POLL_EXCEEDED
    _NODE_UPDATE _NOENT _NOOP _NO_OFFSET _OUTDATED _PARTIAL _PARTITION_EOF _PREV_IN_PROGRESS _PURGE_INFLIGHT
    _PURGE_QUEUE _QUEUE_FULL _RETRY _REVOKE_PARTITIONS _UNDERFLOW _UNKNOWN_BROKER _WAIT_CACHE _WAIT_COORD
    CONCURRENT_TRANSACTIONS COORDINATOR_LOAD_IN_PROGRESS ELECTION_NOT_NEEDED ELIGIBLE_LEADERS_NOT_AVAILABLE
    FENCED_LEADER_EPOCH FETCH_SESSION_ID_NOT_FOUND ILLEGAL_GENERATION INVALID_FETCH_SESSION_EPOCH
    INVALID_SHARE_SESSION_EPOCH KAFKA_STORAGE_ERROR LISTENER_NOT_FOUND MEMBER_ID_REQUIRED NOT_CONTROLLER
    NOT_COORDINATOR NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_LEADER_FOR_PARTITION
    NO_REASSIGNMENT_IN_PROGRESS OFFSET_NOT_AVAILABLE OPERATION_NOT_ATTEMPTED PREFERRED_LEADER_NOT_AVAILABLE
    REASSIGNMENT_IN_PROGRESS REBALANCE_IN_PROGRESS REPLICA_NOT_AVAILABLE SHARE_SESSION_LIMIT_REACHED
    SHARE_SESSION_NOT_FOUND STALE_BROKER_EPOCH STALE_CTRL_EPOCH STALE_MEMBER_EPOCH THROTTLING_QUOTA_EXCEEDED
    TRANSACTION_ABORTABLE UNKNOWN_LEADER_EPOCH UNKNOWN_MEMBER_ID UNKNOWN_SUBSCRIPTION_ID UNSTABLE_OFFSET_COMMIT
"""
_FENCED = """
    _FENCED FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH FENCED_STATE_EPOCH INVALID_PRODUCER_EPOCH PRODUCER_FENCED
    STREAMS_TOPOLOGY_FENCED TRANSACTION_COORDINATOR_FENCED UNRELEASED_INSTANCE_ID
"""
_BAD_RECORD = """
    _BAD_COMPRESSION _KEY_DESERIALIZATION _KEY_SERIALIZATION _VALUE_DESERIALIZATION _VALUE_SERIALIZATION INVALID_MSG
    INVALID_MSG_SIZE INVALID_RECORD INVALID_TIMESTAMP MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE
"""
# A store whose offset is gone has to be rebuilt: its rows no longer match the topic.
_CORRUPT_STATE = "_AUTO_OFFSET_RESET _LOG_TRUNCATION INCONSISTENT_TOPIC_ID OFFSET_OUT_OF_RANGE UNKNOWN_TOPIC_ID"
_CONFIG = """
    _AUTHENTICATION _INVALID_ARG _SSL _UNKNOWN_GROUP _UNKNOWN_PARTITION _UNKNOWN_PROTOCOL _UNKNOWN_TOPIC
    _UNSUPPORTED_FEATURE CLUSTER_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED
    DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_EXPIRED DELEGATION_TOKEN_NOT_FOUND
    DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DUPLICATE_RESOURCE GROUP_AUTHORIZATION_FAILED
    GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED GROUP_SUBSCRIBED_TO_TOPIC ILLEGAL_SASL_STATE INCONSISTENT_GROUP_PROTOCOL
    INVALID_COMMIT_OFFSET_SIZE INVALID_CONFIG INVALID_GROUP_ID INVALID_PARTITIONS INVALID_PRINCIPAL_TYPE
    INVALID_REGULAR_EXPRESSION INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_REQUIRED_ACKS
    INVALID_SESSION_TIMEOUT INVALID_TRANSACTION_TIMEOUT LOG_DIR_NOT_FOUND NON_EMPTY_GROUP OFFSET_METADATA_TOO_LARGE
    POLICY_VIOLATION RESOURCE_NOT_FOUND SASL_AUTHENTICATION_FAILED SECURITY_DISABLED TELEMETRY_TOO_LARGE
    TOPIC_ALREADY_EXISTS TOPIC_AUTHORIZATION_FAILED TOPIC_DELETION_DISABLED TOPIC_EXCEPTION
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNACCEPTABLE_CREDENTIAL UNKNOWN_TOPIC_OR_PART UNSUPPORTED_ASSIGNOR
    UNSUPPORTED_COMPRESSION_TYPE UNSUPPORTED_SASL_MECHANISM
"""
_FATAL = """
    _APPLICATION _CRIT_SYS_RESOURCE _DESTROY _EXISTING_SUBSCRIPTION _FATAL _FS _GAPLESS_GUARANTEE _INCONSISTENT
    _INVALID_DIFFERENT_RECORD _INVALID_TYPE _NOT_CONFIGURED _NOT_IMPLEMENTED _READ_ONLY _STATE DUPLICATE_SEQUENCE_NUMBER
    DUPLICATE_VOTER FEATURE_UPDATE_FAILED INCONSISTENT_VOTER_SET INVALID_PRODUCER_ID_MAPPING INVALID_RECORD_STATE
    INVALID_REGISTRATION INVALID_REQUEST INVALID_TXN_STATE INVALID_UPDATE_VERSION INVALID_VOTER_KEY
    MISMATCHED_ENDPOINT_TYPE NO_ERROR OUT_OF_ORDER_SEQUENCE_NUMBER PRINCIPAL_DESERIALIZATION_FAILURE
    STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH UNKNOWN UNKNOWN_CONTROLLER_ID UNKNOWN_PRODUCER_ID
    UNSUPPORTED_ENDPOINT_TYPE UNSUPPORTED_FOR_MESSAGE_FORMAT UNSUPPORTED_VERSION VOTER_NOT_FOUND
"""

_GROUPS: tuple[tuple[type[EnrichError], str], ...] = (
    (Unreachable, _UNREACHABLE),
    (Retryable, _RETRYABLE),
    (Fenced, _FENCED),
    (BadRecord, _BAD_RECORD),
    (CorruptState, _CORRUPT_STATE),
    (ConfigError, _CONFIG),
    (Fatal, _FATAL),
)

# By number, since a KafkaError has only its code. Names that this librdkafka does not have are left out. A code that is
# in no group fails the exhaustive test, and counts as fatal until then.
KINDS: dict[int, type[EnrichError]] = {
    getattr(KafkaError, name): kind for kind, names in _GROUPS for name in names.split() if hasattr(KafkaError, name)
}

MISSING_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
LOST_OFFSET = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
"""The offset does not exist any more: retention or compaction removed it, or the brokers lost it."""

NO_MEMBER = KafkaError.GROUP_AUTHORIZATION_FAILED
"""What a client also hears that reads from offsets and is no member of a group: it asks for a coordinator all the same,
and reads whatever the answer is."""

_NEXT_STEPS: dict[type[EnrichError], str] = {
    Unreachable: "check that the brokers run and that kafka.bootstrap_servers names them",
    CorruptState: "rebuild the table: its local state no longer matches the topic",
}
_NEXT_STEPS_BY_CODE: dict[int, str] = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "create the topic (enrich topics apply), or correct its name",
    KafkaError._UNKNOWN_TOPIC: "create the topic (enrich topics apply), or correct its name",
    KafkaError.TOPIC_EXCEPTION: "choose another name: brokers take those for equal that differ in . and _ only; the "
    "names of retry topics, tallies and the like follow from those of pipeline and route",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant this user the rights on the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant this user the rights on the consumer group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant this user the rights on the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant this user WRITE and DESCRIBE on the transactional id",
    KafkaError.SASL_AUTHENTICATION_FAILED: "correct kafka.security: user name, password and mechanism",
    KafkaError._AUTHENTICATION: "correct kafka.security: user name, password and mechanism",
    KafkaError._SSL: "correct kafka.security: protocol and certificate files",
    KafkaError.INVALID_TIMESTAMP: "set the clock of this host, or that of the brokers: they refuse times that differ "
    "from theirs by more than message.timestamp.after.max.ms (an hour) or message.timestamp.before.max.ms of the topic",
    KafkaError.MSG_SIZE_TOO_LARGE: "raise max.message.bytes of the topic, or make the record smaller",
}


class ClientOver(Fatal):
    """The client can do nothing any more; a new one may."""


def mapped(error: KafkaError, where: str | None = None) -> EnrichError:
    """Our error for an error of librdkafka."""
    kind = KINDS.get(error.code(), Fatal)
    if kind is Fatal and is_over(error):
        kind = ClientOver
    elif kind is Fatal and error.retriable():
        kind = Retryable
    if error.code() == KafkaError.INVALID_REPLICATION_FACTOR and "fenced" in error.str():
        kind = Unreachable  # brokers that have just restarted or were frozen: none can take a partition yet
    next_step = _NEXT_STEPS_BY_CODE.get(error.code(), _NEXT_STEPS.get(kind))
    return kind(f"Kafka: {error.str()}", where=where, next_step=next_step)


def code_of(error: EnrichError) -> int | None:
    """The client's, of an error that was made of one of its."""
    reason = error.__cause__.args[0] if isinstance(error.__cause__, KafkaException) else None
    return reason.code() if isinstance(reason, KafkaError) else None


@contextmanager
def kafka_errors(where: str | None = None) -> Iterator[None]:
    """Re-raises librdkafka's errors as errors of our tree."""
    try:
        yield
    except KafkaException as exception:
        error = exception.args[0]
        if isinstance(error, KafkaError):
            raise mapped(error, where) from exception
        raise Fatal(f"Kafka: {error}", where=where) from exception


@contextmanager
def errors_of_known_topic(where: str) -> Iterator[None]:
    """The same for a topic that existed when the work began: one that is missing now may come back, as when it is being
    recreated, or when the brokers do not know it for a moment."""
    with kafka_errors(where):
        try:
            yield
        except KafkaException as exception:
            error = exception.args[0]
            if isinstance(error, KafkaError) and error.code() in MISSING_TOPIC:
                raise missing_for_now(error, where) from exception
            raise


def missing_for_now(error: KafkaError, where: str) -> Retryable:
    return Retryable(f"Kafka: {error.str()}", where=where)
