"""What the start of a stage has found, for who lets events flow."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from enrich.config import Pipeline, Stage
from enrich.kafka import Connection, Topics
from enrich.stage.java import java_class
from enrich.stage.measure.metrics import StageMetrics
from enrich.stage.plan.plan import StagePlan
from enrich.stage.progress.checkpoint import Checkpoint
from enrich.stage.progress.group import StageProgress
from enrich.stage.progress.source_topics import Position, require_kept
from enrich.stage.progress.starting import From
from enrich.stage.run.topics import CheckedTopics
from enrich.stage.spark.profiles import StageSettings


@dataclass(frozen=True)
class RunOptions:
    """What a person who starts a stage may choose."""

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    start: From | None = None
    new_pin: bool = False
    """The batch under way may be answered otherwise than before."""
    accept_new_source: bool = False
    """The topic of the events was recreated with the same events at the same offsets."""


@dataclass(frozen=True)
class Start:
    """Another driver may still run."""

    spark: SparkSession
    pipeline: Pipeline
    name: str
    settings: StageSettings
    options: RunOptions
    connection: Connection
    checkpoint: Checkpoint
    topics: Topics
    found: CheckedTopics
    progress: StageProgress
    held: ExitStack
    """Ends with the run."""

    @property
    def stage(self) -> Stage:
        return self.pipeline.stages[self.name]

    def require_kept(self, position: Position) -> None:
        """Raises WouldLoseData if the brokers lost events after these offsets."""
        for topic, offsets in position.items():
            require_kept(topic, offsets, self.topics.start_offsets(topic), self.topics.written_offsets(topic))

    def new_metrics(self, plan: StagePlan) -> StageMetrics:
        java = java_class("java.lang.ProcessHandle").current()
        processes = {"python": os.getpid(), "jvm": int(java.pid())}
        routes = [each.name for each in self.stage.routes]
        return StageMetrics(self.pipeline.name, self.name, plan.spec.lookups, processes, routes)
