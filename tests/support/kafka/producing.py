"""Records that are produced while a test does something else."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from enrich.kafka import DeliveringProducer
from tests.support.beside import beside
from tests.support.kafka.topics import Cluster


@contextmanager
def producing(
    cluster: Cluster, one: Callable[[DeliveringProducer, int], None], *, pause_s: float = 0.02, at_once: int = 20
) -> Iterator[None]:
    """`one` produces the record with a number, from 0 on: so many after each pause, as long as the block runs."""

    def produce(stopping: threading.Event) -> None:
        numbers = itertools.count()
        with DeliveringProducer(cluster.connection) as producer:
            while not stopping.wait(pause_s):
                for number in itertools.islice(numbers, at_once):
                    one(producer, number)

    with beside(produce):
        yield
