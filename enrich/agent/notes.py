"""The notes that a table has with its positions, by which whoever goes on from there can tell what happened since."""

import json
from collections.abc import Mapping

from enrich.errors import CorruptState

TOPIC_ID = "topic_id"
"""Of which topic the positions are. Another id: the topic was deleted and made again."""
EPOCHS = "leader_epochs"
"""Of which leader's term (JSON) the last record of each partition is. With it the brokers tell that it was cut off."""


def epochs_of(notes: Mapping[str, str]) -> dict[int, int]:
    """Partition -> leader's term. Raises CorruptState for notes of another form: a snapshot's may be anybody's."""
    try:
        return {int(partition): int(epoch) for partition, epoch in json.loads(notes.get(EPOCHS, "{}")).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptState("the notes of a table cannot be read", next_step="load it from its topic") from error
