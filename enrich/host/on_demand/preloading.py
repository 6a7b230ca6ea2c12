"""The keys whose rows an on-demand table has before it is ready."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from enrich.base.errors import ConfigError, Retryable
from enrich.config import Preload
from enrich.kafka import Connection, Topics, new_admin_client, read_topic
from enrich.kafka.records import key_of, value_of

Stopping = Callable[[], bool]


class PreloadKeys:
    """Of one table."""

    def __init__(self, preload: Preload, connection: Connection, most: int, where: str) -> None:
        self._preload = preload
        self._connection = connection
        self._most = most
        self._where = where

    def read(self, stopping: Stopping) -> set[bytes]:
        """Raises ConfigError for a file that cannot be read or more keys than the table keeps, or what Kafka raises."""
        keys: set[bytes] = set()
        for key, is_there in self._changes(stopping):
            if is_there:
                keys.add(key)
            else:
                keys.discard(key)
            if len(keys) > self._most:
                raise ConfigError(
                    f"there are more than {self._most:,} keys to preload, which is what the table keeps",
                    where=self._where,
                    next_step="raise max_entries, or preload fewer keys",
                )
        return keys

    def _changes(self, stopping: Stopping) -> Iterator[tuple[bytes, bool]]:
        if self._preload.topic is not None:
            yield from self._of_topic(self._preload.topic, stopping)
        elif self._preload.file is not None:
            yield from ((key, True) for key in self._of_file(Path(self._preload.file)))

    def _of_file(self, path: Path) -> Iterator[bytes]:
        try:
            with path.open("rb") as lines:
                yield from (key for line in lines if (key := line.strip()))
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError(f"the keys to preload cannot be read: {why}", where=f"file {path}") from error

    def _of_topic(self, topic: str, stopping: Stopping) -> Iterator[tuple[bytes, bool]]:
        topics = Topics(new_admin_client(self._connection))
        starts, ends = topics.start_offsets(topic), topics.end_offsets(topic)
        for messages in read_topic(self._connection, topic, starts, ends):
            if stopping():
                raise Retryable("reading was stopped, because the process is stopping", where=f"topic {topic}")
            for message in messages:
                if (key := key_of(message)) is not None:
                    yield key, value_of(message) is not None


def digest_of(keys: set[bytes]) -> str:
    digest = hashlib.sha256()
    for key in sorted(keys):
        digest.update(len(key).to_bytes(4, "big") + key)
    return digest.hexdigest()
