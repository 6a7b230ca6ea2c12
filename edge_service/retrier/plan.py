"""What the retrier does for one route of the section `expel`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from enrich.config import Expel, Pipeline, retry_in_topics, retry_out_topic
from enrich.config.groups import retrier_group
from enrich.config.types.quantities import duration_text


@dataclass(frozen=True)
class Pause:
    """One topic in which events wait."""

    text: str
    """As in the configuration: `30s`."""
    topic: str
    seconds: float


@dataclass(frozen=True)
class RetryPlan:
    pipeline: str
    route: str
    pauses: Mapping[str, Pause]
    """By topic, in the order of the configuration."""
    retry_out: str
    dlq: str
    old: frozenset[str] = frozenset()
    """Those of the topics whose pauses the configuration does not name any more."""

    @property
    def group(self) -> str:
        """One for all pauses of the route: an idle consumer costs a twentieth of a percent of a core, and 5 threads."""
        return retrier_group(self.pipeline, self.route)

    @property
    def sender(self) -> str:
        """In the keys of dead letters, before the id of the topic, as the route itself writes them."""
        return f"{self.pipeline}.expel.{self.route}"

    @property
    def topics(self) -> list[str]:
        return [*self.pauses, self.retry_out]

    def with_old(self, topics: Mapping[str, timedelta]) -> "RetryPlan":
        return replace(self, pauses={**self.pauses, **_pauses(topics)}, old=frozenset(topics))


def plans_of(pipeline: Pipeline) -> list[RetryPlan]:
    """A plan for each route. One without pauses may have had some, in which events wait."""
    return [_plan(pipeline.name, name, route) for name, route in pipeline.expel.items()]


def _plan(pipeline: str, name: str, route: Expel) -> RetryPlan:
    pauses = _pauses(dict(retry_in_topics(pipeline, name, route.retries)))
    return RetryPlan(pipeline, name, pauses, retry_out_topic(pipeline, name), route.dlq)


def _pauses(topics: Mapping[str, timedelta]) -> Mapping[str, Pause]:
    return {topic: Pause(duration_text(pause), topic, pause.total_seconds()) for topic, pause in topics.items()}
