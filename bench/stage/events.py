"""Events for the benchmarks of stages, made in columns, and the check that a stage joined the right rows to them.

python -m bench.stage.events    the process that fills a topic: what to fill on standard input, as JSON
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message, TopicPartition

from bench.kit.metadata import key_of, row_of
from enrich.kafka import Topics, new_admin_client, new_producer, new_store_consumer

PARTITIONS = 4
SCALE = float(os.environ.get("ENRICH_BENCH_SCALE", "1"))
"""For trying a benchmark out with a part of its events; figures that are reported have 1."""

_AT_A_TIME = 20_000
_SAMPLE = 2_000
_PATIENCE_S = 30
_FAST = {
    "linger.ms": 50,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 1_000_000,
}
_PREFIX = key_of(0)[:-1]
_SELECTED = ("plan", "region", "rps")


def scaled(count: int) -> int:
    return max(2_000, int(count * SCALE)) // 1_000 * 1_000


@dataclass(frozen=True)
class Events:
    """A topic of JSON events with keys of a table in the fields `key_0`, `key_1`, ..."""

    topic: str
    count: int
    bytes_each: int
    keys: int
    """Rows of the table."""
    lookups: int = 3
    skewed: bool = False

    @property
    def schema(self) -> str:
        """As a stage's source has it."""
        return ", ".join(f"key_{index} string" for index in range(self.lookups))

    def values(self, first: int, last: int) -> list[bytes]:
        """The events of these numbers; the same ones whenever they are made."""
        parts: list[object] = ['{"id":', pa.array(np.arange(first, last)).cast(pa.string())]
        for index in range(self.lookups):
            numbers = self._drawn(first + index, last - first)
            parts += [f',"key_{index}":"{_PREFIX}', pa.array(numbers).cast(pa.string()), '"']
        head = pc.binary_join_element_wise(*parts, ',"note":"', "")
        room = pc.subtract(pa.scalar(self.bytes_each - 2), pc.binary_length(head)).to_numpy()
        padding = "x" * self.bytes_each
        return [f'{text}{padding[:size]}"}}'.encode() for text, size in zip(head.to_pylist(), room, strict=True)]

    def pieces(self) -> Iterator[tuple[int, int]]:
        """The numbers of the events that are made at once."""
        for first, last in self._halves:
            for start in range(first, last, _AT_A_TIME):
                yield start, min(start + _AT_A_TIME, last)

    @property
    def _halves(self) -> Sequence[tuple[int, int]]:
        return [(0, self.count // 2), (self.count // 2, self.count)]

    def _drawn(self, seed: int, count: int) -> npt.NDArray[np.int64]:
        random = np.random.default_rng(seed)
        if self.skewed:
            return np.asarray(np.minimum(random.zipf(1.2, count), self.keys) - 1)
        return random.integers(0, self.keys, count)

    def fill(self, bootstrap_servers: str) -> None:
        """Makes the topic with all events, by two processes."""
        _topics(bootstrap_servers).create(self.topic, partitions=PARTITIONS)
        command = [sys.executable, "-m", "bench.stage.events"]
        running = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in self._halves]
        for process, (first, last) in zip(running, self._halves, strict=True):
            if process.stdin is not None:
                process.stdin.write(json.dumps([bootstrap_servers, asdict(self), first, last]))
                process.stdin.close()
        if sum(process.wait() != 0 for process in running):
            raise RuntimeError(f"the topic {self.topic} could not be filled")

    def produce(self, bootstrap_servers: str, first: int, last: int) -> None:
        """The events of these numbers, an equal share to each partition."""
        producer = new_producer({"bootstrap.servers": bootstrap_servers}, **_FAST)
        for start in range(first, last, _AT_A_TIME):
            values = self.values(start, min(start + _AT_A_TIME, last))
            for partition in range(PARTITIONS):
                mine = values[partition::PARTITIONS]
                while len(producer) > 300_000:
                    producer.poll(0.05)
                producer.produce_batch(
                    self.topic,
                    [{"key": b"%d" % (start + partition + i * PARTITIONS), "value": v} for i, v in enumerate(mine)],
                    partition=partition,
                )
        if producer.flush(_PATIENCE_S):
            raise RuntimeError(f"the brokers did not take all events of {self.topic}")


Row = Mapping[str, object]


def row_of_key(key: str) -> Row:
    """What a look-up of the key has to find."""
    row = json.loads(row_of(int(key.removeprefix(_PREFIX))))
    return {column: row[column] for column in _SELECTED}


def check_output(
    bootstrap_servers: str, topic: str, objects: Sequence[str], expected: Callable[[str], Row] = row_of_key
) -> None:
    """Raises AssertionError unless the joined rows are right, in samples from all over each partition.

    `objects`: the name of the object that was looked up by `key_0`, by `key_1`, ...
    """
    checked = 0
    for message in sampled(bootstrap_servers, topic):
        event = json.loads(message.value() or b"")
        for index, name in enumerate(objects):
            key = event[f"key_{index}"]
            if event.get(name) != expected(key):
                raise AssertionError(f"{key} was joined with {event.get(name)} instead of {expected(key)}")
        checked += 1
    if not checked:
        raise AssertionError(f"there is nothing in {topic}")


def sampled(bootstrap_servers: str, topic: str) -> Iterator[Message]:
    """Records of the beginning, the middle and the end of each partition."""
    connection = {"bootstrap.servers": bootstrap_servers}
    consumer = new_store_consumer(connection)
    try:
        for partition, end in _topics(bootstrap_servers).end_offsets(topic).items():
            for start in {0, max(0, end // 2 - _SAMPLE), max(0, end - _SAMPLE)}:
                consumer.assign([TopicPartition(topic, partition, start)])
                wanted = min(_SAMPLE, end - start)
                while wanted > 0:
                    for message in consumer.consume(wanted, _PATIENCE_S):
                        if message.error() is None:
                            wanted -= 1
                            yield message
                        elif (message.offset() or 0) >= end:
                            wanted = 0  # the ends of transactions are among the offsets
                        elif wanted > 0:
                            raise RuntimeError(f"{topic}: {message.error()}")
    finally:
        consumer.close()


def _topics(bootstrap_servers: str) -> Topics:
    return Topics(new_admin_client({"bootstrap.servers": bootstrap_servers}))


def main() -> None:
    bootstrap_servers, events, first, last = json.load(sys.stdin)
    Events(**events).produce(bootstrap_servers, first, last)


if __name__ == "__main__":
    main()
