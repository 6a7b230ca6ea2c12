"""The release that made a record: of two records with equal versions, write-back keeps that of the higher one."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from enrich.base.errors import ConfigError, CorruptState
from enrich.kafka.clients.making import Connection
from enrich.kafka.identity import RELEASE, VERSION
from enrich.kafka.reading import read_topic
from enrich.kafka.records import headers_of
from enrich.kafka.topics import Topics
from stores.versions import LARGEST_VERSION, whole_number

_LOOKED_AT = 20
"""Records of each partition."""


def release_headers(release: int) -> list[tuple[str, bytes]]:
    """What a record of this release carries: nothing, if releases are not used."""
    return [(RELEASE, str(release).encode())] if release else []


def release_of(headers: Iterable[tuple[str, bytes | None]]) -> int | None:
    """None if one of them is no release."""
    release = 0
    for name, content in headers:
        if name == RELEASE:
            number = whole_number(content)
            if number is None:
                return None
            release = max(release, number)
    return release


def fallen(release: int, newest: Mapping[str, int]) -> list[str]:
    """A warning for each topic whose newest records are of a higher release than this one."""
    this = f"this is release {release}" if release else "the pipeline has no release"
    return [
        f"topic {name} has records of release {there}, and {this}: of equal versions those of the higher release stay, "
        "whatever is replayed"
        for name, there in newest.items()
        if there > release
    ]


def warn_if_fallen(
    log: logging.Logger, release: int, connection: Connection, topics: Topics, names: Iterable[str], **extra: str
) -> None:
    """A program whose release has fallen does run: a roll-back must not fail because it brought an old number back."""
    newest = newest_releases(connection, topics, names) if release else {}
    for what in fallen(release, newest):
        log.warning(what, extra={**extra, "next": f"set release to {max(newest.values())} or more"})


def newest_releases(connection: Connection, topics: Topics, names: Iterable[str]) -> Mapping[str, int]:
    """The highest release among the newest records of each topic; only topics that have one."""
    found = {}
    for name in names:
        with suppress(ConfigError, CorruptState):  # it does not exist yet, may not be read, or was just emptied
            release = _newest_release(connection, topics, name)
            if release:
                found[name] = release
    return found


def newest_version(connection: Connection, topics: Topics, name: str) -> int:
    """The greatest version among the newest records of the topic; 0 if they have none."""
    with suppress(ConfigError, CorruptState):  # it may not be read, or was just emptied
        numbers = [
            whole_number(content) or 0
            for headers in _newest_headers(connection, topics, name)
            for header, content in headers
            if header == VERSION
        ]
        return max((number for number in numbers if number <= LARGEST_VERSION), default=0)
    return 0


def _newest_release(connection: Connection, topics: Topics, name: str) -> int:
    releases = (release_of(headers) for headers in _newest_headers(connection, topics, name))
    return max((release or 0 for release in releases), default=0)


def _newest_headers(connection: Connection, topics: Topics, name: str) -> Iterator[Sequence[tuple[str, bytes | None]]]:
    starts, ends = topics.newest_offsets(name, _LOOKED_AT)
    for batch in read_topic(connection, name, starts, ends):
        yield from filter(None, map(headers_of, batch))
