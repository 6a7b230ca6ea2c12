"""What a route has to do, from its section of the configuration: names, topics, limits."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from enrich.base.backoff import Backoff
from enrich.config import Pipeline
from enrich.config.groups import expel_group, retrier_group
from enrich.config.sections.edges.expel import (
    Expel,
    HttpEndpoint,
    HttpFormat,
    Order,
    per_second,
    retry_in_topics,
    retry_out_topic,
)


@dataclass(frozen=True)
class ExpelPlan:
    """One route of the section `expel`."""

    pipeline: str
    name: str
    section: Expel
    directory: Path
    """On this host, for the file of dead letters that the DLQ refuses."""

    @property
    def where(self) -> str:
        return f"expel.{self.name}"

    @property
    def group(self) -> str:
        return expel_group(self.pipeline, self.name)

    @property
    def retrier_group(self) -> str:
        """The group that reads the retry topics."""
        return retrier_group(self.pipeline, self.name)

    @property
    def sender(self) -> str:
        """In the keys of dead letters, before the id of the topic, and in the ids of requests."""
        return f"{self.pipeline}.expel.{self.name}"

    @property
    def retry_in(self) -> Sequence[str]:
        """The topic of each pause."""
        return [topic for topic, _ in retry_in_topics(self.pipeline, self.name, self.section.retries)]

    @property
    def retry_out(self) -> str:
        return retry_out_topic(self.pipeline, self.name)

    @property
    def http(self) -> HttpEndpoint:
        return self.section.to.http

    @property
    def keeps_order(self) -> bool:
        return self.section.order is Order.key

    @property
    def lane(self) -> "LanePlan":
        section, http = self.section, self.http
        return LanePlan(
            where=self.where,
            sender=self.sender,
            format=http.format,
            content_type=http.content_type,
            gzip=http.gzip,
            secrets=[secret.get_secret_value() for secret in http.secret or ()],
            events=1 if http.format is HttpFormat.single else section.batch.events,
            bytes=section.batch.bytes,
            wait_s=section.batch.wait.total_seconds(),
            parallel=section.parallel,
            per_second=None if section.rate is None else per_second(section.rate),
            tries=section.local.tries,
            first_s=section.local.first.total_seconds(),
            longest_s=section.local.longest.total_seconds(),
            budget_s=section.local.budget.total_seconds(),
            split=section.split,
            retry_statuses=section.retry_statuses,
            pauses=section.retries,
            max_age=section.max_age,
        )


@dataclass(frozen=True)
class LanePlan:
    """How events are sent."""

    where: str
    sender: str
    """In the ids of requests: two routes may have the same topic and endpoint."""
    format: HttpFormat
    content_type: str | None
    gzip: bool
    secrets: Sequence[str]
    events: int
    bytes: int
    """Of a batch."""
    wait_s: float
    parallel: int
    per_second: float | None
    tries: int
    first_s: float
    longest_s: float
    budget_s: float
    split: Collection[int]
    retry_statuses: Collection[int]
    pauses: Sequence[timedelta]
    max_age: timedelta

    def backoff_s(self, tries: int) -> float:
        """The pause after so many tries within the program."""
        backoff = Backoff(self.first_s, max(self.longest_s, self.first_s))
        pause_s = 0.0
        for _ in range(tries):
            pause_s = backoff.next_s()
        return pause_s

    def pause_after(self, tries: int, retry_after_s: float | None) -> int | None:
        """Which pause an event waits for, that has used up so many. None: there is none left."""
        if retry_after_s is None or not self.pauses:
            return tries if tries < len(self.pauses) else None
        enough = (i for i, pause in enumerate(self.pauses) if i >= tries and pause.total_seconds() >= retry_after_s)
        longest = max(range(len(self.pauses)), key=lambda i: self.pauses[i])
        return next(enough, longest)


def plans_of(pipeline: Pipeline) -> list[ExpelPlan]:
    directory = Path(pipeline.state_dir) / pipeline.name / "expel"
    return [ExpelPlan(pipeline.name, name, section, directory) for name, section in pipeline.expel.items()]
