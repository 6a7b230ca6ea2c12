"""The root of the configuration file: one pipeline."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, JsonValue, model_validator

from enrich.config.sections.edges.expel import Expel
from enrich.config.sections.edges.ingest import Ingest
from enrich.config.sections.edges.pages import Pages
from enrich.config.sections.host.agent import AgentSection
from enrich.config.sections.host.memory import Memory
from enrich.config.sections.kafka.section import KafkaSection
from enrich.config.sections.masks.section import Masks
from enrich.config.sections.observe.section import Observe
from enrich.config.sections.stages.stage import Stage
from enrich.config.sections.sync.section import Sync, filled_sync
from enrich.config.sections.tables.snapshots import Snapshots
from enrich.config.sections.tables.table import Table
from enrich.config.sections.tables.topics import TOPIC_OR_ALL_PATTERN, TopicOrAll, TopicWishes
from enrich.config.types.fields import NAME_PATTERN, Between, LocalPath, Name, Section, fills_in

LARGEST_RELEASE = 2**53
"""As of versions: external stores compare both."""
_OF_EACH = {
    "ingest": ("dlq", "{}.{}.dlq"),
    "expel": ("dlq", "{}.{}.dlq"),
    "stages": ("checkpoint", "./checkpoints/{}/{}"),
}
"""A default that each entry of a section gets: its key, made of the pipeline's name and its own."""
_NAMED: dict[str, JsonValue] = {"propertyNames": {"pattern": NAME_PATTERN}}


class Pipeline(Section):
    """Tables, and the stages that join events with them."""

    name: Name
    """Name of the pipeline; part of the names of directories, topics and consumer groups."""
    release: Annotated[int, Between(0, LARGEST_RELEASE)] = 0
    """A number that rises with every deploy and every roll-back. Records that stages and sources write carry it, and of
    two records with equal versions write-back keeps that of the higher release. 0: none is written."""
    kafka: KafkaSection
    """The brokers, the schema registry, and settings for the clients."""
    state_dir: LocalPath = Field(default="./state", validate_default=True)
    """Directory of the local stores on each host, on a local file system. Its contents can be deleted at any time, at
    the cost of a rebuild; but keep dead letters that a DLQ refused, `*.dead-letters.jsonl`."""
    memory: Memory = Field(default_factory=Memory)
    """Memory of the agent and its readers on a host."""
    agent: AgentSection = Field(default_factory=AgentSection)
    """How long the agent stays, and where its metrics are."""
    snapshots: Snapshots | None = None
    """Where snapshots of tables are kept. A host without rows starts from the newest good one."""
    tables: Mapping[Name, Table] = Field(default_factory=dict, json_schema_extra=_NAMED)
    """The tables, by name."""
    stages: Mapping[Name, Stage] = Field(default_factory=dict, json_schema_extra=_NAMED)
    """The stages, by name."""
    masks: Masks | None = None
    """What the stages see of each column of their events. Without it: everything."""

    sync: Sync | None = None
    """What the sync service moves between topics and external stores."""
    ingest: Mapping[Name, Ingest] = Field(default_factory=dict, json_schema_extra=_NAMED)
    """What takes events over HTTP and writes them to topics, by name."""
    expel: Mapping[Name, Expel] = Field(default_factory=dict, json_schema_extra=_NAMED)
    """The routes that deliver the events of topics over HTTP, by name."""
    pages: Pages = Field(default_factory=Pages)
    """Where ingest, expel and the retrier say how they are."""
    observe: Observe | None = None
    """What the observer promises, when it raises an alarm, and where its page is."""
    tallies: bool | None = None
    """Whether the nodes write tallies of their events to the topic `<name>.tallies`: which came, and what became of
    each. By default they do if the pipeline has `ingest`, `expel` or `observe`."""
    topics: Mapping[TopicOrAll, TopicWishes] = Field(
        default_factory=dict, json_schema_extra={"propertyNames": {"pattern": TOPIC_OR_ALL_PATTERN}}
    )
    """What topics should be like, by name; `*` is for all of them. For `enrich topics`."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: object) -> object:
        """Defaults that depend on other parts of the pipeline, such as a checkpoint's on the pipeline's name."""
        if not isinstance(data, Mapping):
            return data
        filled = {
            section: {
                name: _filled(entry, key, form.format(data.get("name"), name)) for name, entry in data[section].items()
            }
            for section, (key, form) in _OF_EACH.items()
            if isinstance(data.get(section), Mapping)
        }
        return {**data, **filled_sync(data), **filled}

    @property
    def tallies_topic(self) -> str | None:
        """Where tallies are written; None: nowhere."""
        wanted = bool(self.ingest or self.expel or self.observe) if self.tallies is None else self.tallies
        return f"{self.name}.tallies" if wanted else None

    @property
    def minutes_topic(self) -> str:
        """Where the observer writes its verdicts."""
        return f"{self.name}.minutes"

    @property
    def ratings_topic(self) -> str:
        """Where ratings are kept."""
        return f"{self.name}.ratings"


def _filled(entry: object, key: str, value: str) -> object:
    return fills_in(entry, lambda _: {key: value})
