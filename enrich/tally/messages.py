"""Which events records are."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from confluent_kafka import Message

from enrich.kafka.identity import identity_of
from enrich.kafka.records import headers_of, own_place
from enrich.tally.origins import Origins, Place


def origins_of(messages: Iterable[Message], place_of: Callable[[Message], tuple[str, int, int]] = own_place) -> Origins:
    """By their headers. `place_of`: for records without, where their event came in."""
    found: defaultdict[Place, list[int]] = defaultdict(list)
    for message in messages:
        headers = headers_of(message)
        origin = identity_of(headers)[0] if headers else None
        if origin is None:
            topic, partition, offset = place_of(message)
            found[topic, partition].append(offset)
        else:
            name, _, number = origin[0].decode().rpartition("/")
            found[name, int(number)].append(origin[1])
    return Origins.of_places(found)
