"""A compacted topic of users, filled fast, and the pipeline file that makes a table of it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from confluent_kafka import KafkaError, Message

from enrich.base.errors import EnrichError
from enrich.config import Pipeline, load
from enrich.kafka import COMPACTED, Topics, new_admin_client, new_producer
from enrich.kafka.clients.errors import mapped

ROWS = 1_000_000
PARTITIONS = 4
COLUMNS = "plan string, region string, rps int"

_PLANS = ("free", "pro", "team")
_ROW_BYTES = 100
# Large queues and batches: the topic has to be there, how it came to be is not what is measured.
_FAST = {
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_000_000,
}


def key_of(number: int) -> str:
    return f"user:{number}"


def row_of(number: int, version: int = 0) -> bytes:
    """100 bytes of JSON: the three columns of `COLUMNS` and a field that the table does not name."""
    head = f'{{"plan":"{_PLANS[number % 3]}","region":"eu-{number % 17}","rps":{version},"note":"'
    return f'{head}{"x" * (_ROW_BYTES - 2 - len(head))}"}}'.encode()


def fill(bootstrap_servers: str, topic: str, rows: int = ROWS) -> None:
    """Makes the topic and produces a row for each number."""
    connection = {"bootstrap.servers": bootstrap_servers}
    Topics(new_admin_client(connection)).create(topic, partitions=PARTITIONS, config=COMPACTED)
    produce(bootstrap_servers, topic, range(rows))


def produce(bootstrap_servers: str, topic: str, numbers: Iterable[int]) -> None:
    """All are acknowledged when it returns. Raises the first failed delivery."""
    producer = new_producer({"bootstrap.servers": bootstrap_servers}, **_FAST)
    failures: list[EnrichError] = []

    def told(error: KafkaError | None, message: Message) -> None:  # noqa: ARG001 - the signature of a callback
        if error is not None:
            failures.append(mapped(error, f"topic {topic}"))

    for piece in _pieces(numbers):
        for number in piece:
            producer.produce(topic, row_of(number), key_of(number), on_delivery=told)
        producer.poll(0)
    producer.flush()
    if failures:
        raise failures[0]


def pipeline_of(folder: Path, bootstrap_servers: str, *topics: str, history: str = "0") -> Pipeline:
    """A pipeline with a table for each topic, of the topic's name."""
    path = folder / "pipeline.yaml"
    table = f'format: json, columns: "{COLUMNS}", history: {history}'
    tables = "".join(f"  {topic}: {{topic: {topic}, {table}}}\n" for topic in topics)
    path.write_text(
        f"name: bench\nkafka: {{bootstrap_servers: '{bootstrap_servers}'}}\nstate_dir: {folder / 'state'}\n"
        f"tables:\n{tables}",
        encoding="utf-8",
    )
    return load(path)


def _pieces(numbers: Iterable[int]) -> Iterator[list[int]]:
    piece: list[int] = []
    for number in numbers:
        piece.append(number)
        if len(piece) == 10_000:
            yield piece
            piece = []
    yield piece
