"""Client settings that are refused under `kafka.client`, each with the guarantee that it would break."""

from collections.abc import Mapping

_LOST = "records that are not acknowledged by all replicas can be lost"
_TWICE = "retries would write records twice"
_OURS = "offsets are kept with the data that was written, never by the client"
_PARTITIONS = "keys would go to other partitions than with Java and Spark"
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
    "partitioner": _PARTITIONS,
    "partitioner.class": _PARTITIONS,
    "partitioner.ignore.keys": _PARTITIONS,
    "partitioner.adaptive.partitioning.enable": _PARTITIONS,
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
    "check.crcs": "a flipped bit would become a wrong row",
    "interceptor.classes": "Spark refuses interceptors, since they could change records",
    "bootstrap.servers": "it is written kafka.bootstrap_servers",
    "metadata.broker.list": "it is written kafka.bootstrap_servers",
}
_REFUSED_FAMILIES = (("sasl.", _SECURITY), ("ssl.", _SECURITY), ("security.", _SECURITY))


def why_refused(name: str) -> str | None:
    """Why a key under `kafka.client` is refused, or None if it is simply unknown."""
    if name in REFUSED:
        return f"refused: {REFUSED[name]}"
    return next((f"refused: {why}" for start, why in _REFUSED_FAMILIES if name.startswith(start)), None)
