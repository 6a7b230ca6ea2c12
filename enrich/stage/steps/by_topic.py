"""Batches with events of several topics, taken apart and put together again."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc


def each_topic(
    topics: pa.StringArray, columns: Sequence[pa.Array], make: Callable[[str, Sequence[pa.Array]], pa.Array]
) -> pa.Array:
    """What `make` makes of the events of each topic. Most batches have events of one."""
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        return make(names[0], columns)
    made = None
    for number, name in enumerate(names):
        own = pc.equal(encoded.indices, number)
        part = make(name, [column.filter(own) for column in columns])
        made = pa.nulls(len(topics), part.type) if made is None else made
        made = pc.replace_with_mask(made, own, part)
    return columns[0] if made is None else made
