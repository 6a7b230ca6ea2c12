"""A table as the target of writes: its topic, how rows are encoded, and who else writes there."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from ipaddress import ip_network

import pyarrow as pa

from enrich.admin.cluster import Cluster
from enrich.admin.rights import needs
from enrich.base.errors import ConfigError
from enrich.codecs.encoders import encoder_of_table
from enrich.codecs.encoding import Encoder
from enrich.config import KeyKind, Pipeline, Table
from enrich.host.tables import TopicTable
from enrich.kafka import Connection
from enrich.kafka.topic_settings import largest_row
from enrich.kafka.writing.room import room_by, sized
from enrich.kafka.writing.transactions import Span, TransactionalProducer
from stores.protocol import Decoder


@dataclass(frozen=True)
class Target:
    """One table of a pipeline on its cluster."""

    cluster: Cluster
    pipeline: str
    name: str
    section: Table
    topic: str
    encoder: Encoder
    decoder: Decoder
    largest: int
    """Largest size of key and value of a record together, in bytes."""
    room: int
    """The largest record, in bytes."""
    other_writer: str | None
    """The sync service's source that writes the topic, if there is one."""

    @property
    def identity(self) -> str:
        """The transactional id: a second writer fences the first, which then fails with Fenced."""
        return f"enrich.admin.{self.pipeline}.{self.topic}"

    @property
    def writing(self) -> Connection:
        """The settings of a producer of its rows."""
        return sized(self.cluster.connection, [self.room])

    @contextmanager
    def transaction(self, producer: TransactionalProducer) -> Iterator[dict[int, Span]]:
        """Every reader can see what was produced in the block when it returns."""
        with closing(producer):
            with needs("WRITE", f"transactional-id {self.identity}"):
                producer.start()
            with needs("WRITE", f"topic {self.topic}"), producer.transaction() as spans:
                yield spans
            producer.settle()

    def require_key(self, key: str) -> bytes:
        """The key's bytes. Raises ConfigError for a key that no row of this table can have."""
        if self.section.key is KeyKind.cidr:
            try:
                ip_network(key, strict=False)
            except ValueError:
                raise ConfigError(
                    f"`{key}` is not a network", where=f"table {self.name}", next_step="write it like 10.0.0.0/8"
                ) from None
        return key.encode()

    def require_decodable(self, value: bytes) -> None:
        reason = self.decoder.decode(pa.array([value], pa.binary())).bad.get(0)
        if reason is not None:
            raise ConfigError(
                f"the value cannot become a row: {reason}",
                where=f"table {self.name}",
                next_step=f"its columns: {self.section.columns}",
            )

    def require_size(self, key: bytes, value: bytes | None) -> None:
        size = len(key) + len(value or b"")
        if size > self.largest:
            raise ConfigError(
                f"the record has {size:,} bytes, and the topic takes {self.largest:,}",
                where=f"topic {self.topic}",
                next_step="raise topics.<name>.max_message and run enrich topics apply",
            )


def target_of(pipeline: Pipeline, table: TopicTable, cluster: Cluster) -> Target:
    """Raises Unreachable if a needed registry does not answer."""
    section = pipeline.tables[table.name]
    with needs("DESCRIBE_CONFIGS", f"topic {table.topic}"):
        settings = cluster.topics.settings(table.topic)
    sources = {} if pipeline.sync is None else pipeline.sync.sources
    return Target(
        cluster,
        pipeline.name,
        table.name,
        section,
        table.topic,
        encoder_of_table(section, pipeline.kafka),
        table.spec.decoder,
        largest_row(cluster.connection, settings),
        room_by(settings, cluster.connection),
        next((source for source, given in sources.items() if given.topic == table.topic), None),
    )
