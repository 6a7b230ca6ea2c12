"""Where another observer goes on, as it stands in the topic of verdicts."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence

from enrich.base.errors import EnrichError
from enrich.tally import Node, NodeKind, Origins
from enrich.tally.origins import Place
from enrich.verdict.minute import named, origins_of, range_of
from observe_service.verdicts.observation import Checkpoint

_log = logging.getLogger("enrich.observe")

_MOST_PLACED = 5_000
"""Ranges in a checkpoint. Of what is beyond a repeat may count as late."""


def to_record(checkpoint: Checkpoint) -> bytes:
    entries = []
    for entry, (floors, origins) in checkpoint.placed.items():
        placed = named(origins, _MOST_PLACED)[0]
        node = None if entry is None else _node_out(entry)
        entries.append({"entry": node, "floors": _places_out(floors), "placed": placed})
    content = {"from_ms": checkpoint.from_ms, "minute": checkpoint.minute, "entries": entries}
    of_topics = {"ids": dict(checkpoint.ids), "made_ms": dict(checkpoint.made_ms)}
    bases = [{"node": _node_out(node), "read": _places_out(read)} for node, read in checkpoint.bases.items()]
    return json.dumps(content | of_topics | {"bases": bases}).encode()


def from_record(content: bytes | None) -> Checkpoint | None:
    """None if there is none, or none that can be read."""
    if content is None:
        return None
    try:
        found = json.loads(content)
        placed: dict[Node | None, tuple[Mapping[Place, int], Origins]] = {}
        # One of an earlier release has them of all entries together.
        for each in found.get("entries", [{**found, "entry": None}]):
            entry = None if each["entry"] is None else _node(*each["entry"])
            placed[entry] = _places_in(each["floors"]), origins_of([str(one) for one in each["placed"]])
        ids = {str(topic): str(topic_id) for topic, topic_id in found.get("ids", {}).items()}
        made_ms = {str(topic): int(at_ms) for topic, at_ms in found.get("made_ms", {}).items()}
        bases = {_node(*each["node"]): _places_in(each["read"]) for each in found.get("bases", [])}
        return Checkpoint(int(found["from_ms"]), int(found["minute"]), placed, ids, made_ms, bases)
    except (ValueError, KeyError, TypeError, EnrichError) as error:
        _log.warning("where to go on cannot be read: %s", error)
        return None


def halved(record: bytes) -> bytes | None:
    """With half of its ranges. None: it has none."""
    content = json.loads(record)
    if not any(each["placed"] for each in content["entries"]):
        return None
    for each in content["entries"]:
        del each["placed"][len(each["placed"]) // 2 :]
    return json.dumps(content).encode()


def _node_out(node: Node) -> Sequence[str]:
    return [node.pipeline, node.kind.name, node.name]


def _node(pipeline: str, kind: str, name: str) -> Node:
    return Node(pipeline, NodeKind[kind], name)


def _places_out(offsets: Mapping[Place, int]) -> Sequence[str]:
    return [f"{topic}/{partition}/{offset}" for (topic, partition), offset in sorted(offsets.items())]


def _places_in(found: Iterable[object]) -> Mapping[Place, int]:
    ranges = [range_of(str(each)) for each in found]
    return {(topic, partition): offset for topic, partition, offset, _ in ranges}
