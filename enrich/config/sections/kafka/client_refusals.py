"""Settings of Kafka's clients that are refused under `kafka.client`, with the guarantee that each would break."""

from collections.abc import Mapping

_LOST = "records that are not acknowledged by all replicas can be lost"
_TWICE = "retries would write records twice"
_OURS = "offsets are kept with the data that was made of them, never by the client"
_PLACES = "keys would go to other partitions than Java and Spark put them in"
_NAMED = "enrich names its consumer groups itself"
_FENCED = "enrich names its transactions itself, since the name is what fences a second writer"
_SECURITY = "it belongs in kafka.security, which speaks to both kinds of client"

REFUSED: Mapping[str, str] = {
    "acks": _LOST,
    "request.required.acks": _LOST,
    "retries": "giving up early would lose records; how long to try is delivery.timeout.ms",
    "enable.idempotence": _TWICE,
    "isolation.level": "records of transactions that were aborted would be read",
    "enable.auto.commit": _OURS,
    "auto.commit.interval.ms": _OURS,
    "enable.auto.offset.store": _OURS,
    "auto.offset.reset": "a lost position would silently skip records or read them again",
    "partitioner": _PLACES,
    "partitioner.class": _PLACES,
    "partitioner.ignore.keys": _PLACES,
    "partitioner.adaptive.partitioning.enable": _PLACES,
    "group.id": _NAMED,
    "group.instance.id": _NAMED,
    "group.protocol": _NAMED,
    "partition.assignment.strategy": "the tailer and Spark assign partitions by hand",
    "transactional.id": _FENCED,
    "transaction.timeout.ms": _FENCED,
    "allow.auto.create.topics": "a misspelt topic would be created instead of reported",
    "key.serializer": "enrich hands over bytes",
    "value.serializer": "enrich hands over bytes",
    "key.deserializer": "enrich reads bytes",
    "value.deserializer": "enrich reads bytes",
    "check.crcs": "a bit that flipped on the way would become a wrong row",
    "interceptor.classes": "Spark refuses interceptors, since they could change records",
    "bootstrap.servers": "it is written kafka.bootstrap_servers",
    "metadata.broker.list": "it is written kafka.bootstrap_servers",
}
_REFUSED_FAMILIES = (("sasl.", _SECURITY), ("ssl.", _SECURITY), ("security.", _SECURITY))


def why_refused(name: str) -> str | None:
    """Why a key under `kafka.client` is no setting, or None when there is nothing to say but that it is unknown."""
    if name in REFUSED:
        return f"refused: {REFUSED[name]}"
    return next((f"refused: {why}" for start, why in _REFUSED_FAMILIES if name.startswith(start)), None)
