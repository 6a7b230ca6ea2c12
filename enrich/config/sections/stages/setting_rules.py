"""Which `settings` a stage takes beside Spark's own spark.*: options of Spark's source and of its query.

Spark looks at their values once a stage has begun, and says little: no batch ever, lost data, a page of Java.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from enrich.config.messages.problems import Finding, Path
from enrich.config.messages.words import hint, shown
from enrich.config.sections.stages.settings import as_spark_takes
from enrich.config.sections.stages.stage import Profile, Replay, Stage

LARGEST, SMALLEST = "maxOffsetsPerTrigger", "minOffsetsPerTrigger"
ASYNC, ASYNC_INTERVAL = "asyncProgressTrackingEnabled", "asyncProgressTrackingCheckpointIntervalMs"


@dataclass(frozen=True)
class _Kind:
    """What Spark reads from a text."""

    expected: str
    accepts: Callable[[str], bool]


def _whole(low: int, high: int = 2**63 - 1) -> _Kind:
    def accepts(text: str) -> bool:
        return re.fullmatch("[0-9]{1,19}", text) is not None and low <= int(text) <= high

    return _Kind(f"a whole number from {low} to {high}", accepts)


_FLAG = _Kind("true or false", ("true", "false").__contains__)
_DURATION = _Kind(
    "a duration such as 500ms, 8s or 2m",
    lambda text: re.fullmatch("[0-9]{1,12}(us|ms|s|m|min|h|d)?", text) is not None,
)

SOURCE_OPTIONS: Mapping[str, _Kind] = {
    # Spark makes so many ranges of each batch, also empty ones. Of two thousand million the driver would die.
    "minPartitions": _whole(1, 100_000),
    "maxRecordsPerPartition": _whole(1),
    LARGEST: _whole(1),
    SMALLEST: _whole(0),
    "maxTriggerDelay": _DURATION,
}
QUERY_OPTIONS: Mapping[str, _Kind] = {ASYNC: _FLAG, ASYNC_INTERVAL: _whole(0)}
_OPTIONS = {**SOURCE_OPTIONS, **QUERY_OPTIONS}

_REFUSED = {
    "failOnDataLoss": "events that the brokers lost must not go unnoticed",
    "startingOffsets": "use --from at a start without a checkpoint",
    "subscribe": "the topics are set by `source`",
    "subscribePattern": "the topics are set by `source`",
    "checkpointLocation": "the path is set by `checkpoint`",
}


def setting_rules(stage: Stage, here: Path) -> Iterator[Finding]:
    given = {name: text for name, text in as_spark_takes(stage.settings).items() if not name.startswith("spark.")}
    at = (*here, "settings")
    is_good = True
    for name, text in given.items():
        found = _name_rule(stage, here, name) or _value_rule(stage, here, name, text)
        if found is not None:
            is_good = False
            yield found
    if is_good and {LARGEST, SMALLEST} <= given.keys() and int(given[SMALLEST]) > int(given[LARGEST]):
        yield Finding((*at, SMALLEST), f"more than {LARGEST}", about=((*at, LARGEST),))
    if stage.replay == Replay.deterministic and given.get(ASYNC) == "true":
        message = "not with replay: deterministic, which records progress before each batch"
        yield Finding((*at, ASYNC), message, about=((*here, "replay"),))


def _name_rule(stage: Stage, here: Path, name: str) -> Finding | None:
    if stage.profile == Profile.realtime:
        message = "not with profile: realtime, which has no batches; it takes Spark's own spark.*, or use latency"
        return Finding((*here, "settings", name), message, about=((*here, "profile"),), key=True)
    if name in _OPTIONS:
        return None
    if name.startswith("kafka."):
        message = "cannot be set here: settings of the Kafka clients belong to `kafka.client`"
    elif name in _REFUSED:
        message = f"cannot be set here: {_REFUSED[name]}"
    else:
        message = f"neither one of Spark's own spark.* nor an option of a stage{hint(name, tuple(_OPTIONS), 'options')}"
    return Finding((*here, "settings", name), message, key=True)


def _value_rule(stage: Stage, here: Path, name: str, text: str) -> Finding | None:
    kind = _OPTIONS[name]
    if kind.accepts(text):
        return None
    # A text may come from the environment, and is not shown.
    value = (stage.settings or {})[name]
    got = f", got {shown(value)}" if isinstance(value, int) else ""
    return Finding((*here, "settings", name), f"expected {kind.expected}{got}")
