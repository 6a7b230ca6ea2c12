"""Producers that have met an error which they cannot get over: they take nothing more, for as long as they live."""

from confluent_kafka import KafkaError, KafkaException, Producer


def is_over(error: KafkaError) -> bool:
    """Whether the producer that met it is of no use any more."""
    return error.fatal() or error.code() == KafkaError._FATAL


def serve(producer: Producer, seconds: float) -> KafkaError | None:
    """Calls delivery reports. Returns an error that the producer cannot get over, which the client raises here once."""
    try:
        producer.poll(seconds)
    except KafkaException as exception:
        error: KafkaError = exception.args[0]
        return error
    return None


def discard(producer: Producer) -> None:
    """Whatever it has is refused: the reports say so."""
    producer.purge()
    for _ in range(2):  # that error may come first, if it was not raised yet
        serve(producer, 0)
