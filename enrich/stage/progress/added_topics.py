"""Topics that a source has got since its checkpoint was written. They are read from their beginning.

Spark does so by itself, but only from offset 0: where retention has deleted the oldest events it takes the others for
lost ones, and fails. Then the beginning is entered in its record of the last batch, as if that batch had read nothing
of the topic.
"""

import json
from collections.abc import Callable, Collection, Mapping

from enrich.base.errors import ConfigError
from enrich.stage.progress.source_topics import Texts, position_of


def enter_added(checkpoint: Texts, topics: Collection[str], first: Callable[[str], Mapping[int, int]]) -> None:
    """No other driver may run. `first`: the first offsets that the brokers have of a topic.

    Raises ConfigError if the last batch has to be repeated: its record must stay as it is.
    """
    known = position_of(checkpoint)
    if not known:
        return
    firsts = {topic: first(topic) for topic in sorted(set(topics) - known.keys())}
    entered = {topic: offsets for topic, offsets in firsts.items() if any(offsets.values())}
    if not entered:
        return
    last = checkpoint.batches("offsets")[-1]
    if last not in checkpoint.batches("commits"):
        raise ConfigError(
            f"the stage was killed in a batch, which has to be repeated before the topics {', '.join(entered)} can be "
            "added, of which the oldest events are deleted",
            where=f"topic {next(iter(entered))}",
            next_step="run the stage once more without them, and end it by `enrich stop` or SIGTERM",
        )
    name = f"offsets/{last}"
    *before, line = (checkpoint.read(name) or "").rstrip("\n").split("\n")
    offsets = {topic: {str(partition): offset for partition, offset in each.items()} for topic, each in entered.items()}
    checkpoint.write(name, "\n".join([*before, json.dumps({**json.loads(line), **offsets}, separators=(",", ":"))]))
