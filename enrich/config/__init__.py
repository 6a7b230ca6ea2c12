"""The configuration: loads a YAML file into one frozen `Pipeline`, or reports everything that is wrong with it at once.

Each section has a file with its model and, if keys depend on each other, one with its rules. Other packages take a
pipeline or a section of it and read no configuration themselves. Nothing here opens a connection.
"""

from enrich.config.loader import load, load_for_store, load_text
from enrich.config.messages.masking import Password, SecretAddress, mask
from enrich.config.messages.problems import ConfigProblems, Problem
from enrich.config.sections.edges.expel import (
    Expel,
    HttpFormat,
    Order,
    holds_topic,
    per_second,
    retry_in_topics,
    retry_out_topic,
)
from enrich.config.sections.edges.ingest import Ingest, Invalid
from enrich.config.sections.host.memory import Memory
from enrich.config.sections.kafka.client_settings import ClientSettings, Role
from enrich.config.sections.kafka.section import KafkaSection, Mechanism, Protocol, Registry, Security
from enrich.config.sections.masks.classifying import Classification, TopicMasks
from enrich.config.sections.masks.section import Masking
from enrich.config.sections.pipeline import Pipeline
from enrich.config.sections.stages.routes import Route
from enrich.config.sections.stages.source import Source
from enrich.config.sections.stages.stage import Lookup, OnMiss, Profile, Replay, Sink, Stage, Writeback
from enrich.config.sections.sync.section import Sync
from enrich.config.sections.sync.sources import (
    FileOrigin,
    FileType,
    Follow,
    HttpOrigin,
    Origin,
    PostgresOrigin,
    RedisOrigin,
    RedisType,
    SyncSource,
)
from enrich.config.sections.sync.targets import Delete, Output, PostgresTarget, RedisForm, RedisTarget, Target
from enrich.config.sections.sync.writeback import SyncWriteback, retry_prefix, retry_topics
from enrich.config.sections.tables.table import (
    Access,
    Compaction,
    Freshness,
    KeyKind,
    Loader,
    OnStale,
    Preload,
    Table,
    Then,
)
from enrich.config.sections.tables.topics import EVERY_TOPIC, Cleanup, TopicWishes
from enrich.config.types.columns import Columns, parse_columns
from enrich.config.types.encoding import AvroSchema, Format, Framing
from enrich.config.wire import from_wire, to_wire

__all__ = [
    "EVERY_TOPIC",
    "Access",
    "AvroSchema",
    "Classification",
    "Cleanup",
    "ClientSettings",
    "Columns",
    "Compaction",
    "ConfigProblems",
    "Delete",
    "Expel",
    "FileOrigin",
    "FileType",
    "Follow",
    "Format",
    "Framing",
    "Freshness",
    "HttpFormat",
    "HttpOrigin",
    "Ingest",
    "Invalid",
    "KafkaSection",
    "KeyKind",
    "Loader",
    "Lookup",
    "Masking",
    "Mechanism",
    "Memory",
    "OnMiss",
    "OnStale",
    "Order",
    "Origin",
    "Output",
    "Password",
    "Pipeline",
    "PostgresOrigin",
    "PostgresTarget",
    "Preload",
    "Problem",
    "Profile",
    "Protocol",
    "RedisForm",
    "RedisOrigin",
    "RedisTarget",
    "RedisType",
    "Registry",
    "Replay",
    "Role",
    "Route",
    "SecretAddress",
    "Security",
    "Sink",
    "Source",
    "Stage",
    "Sync",
    "SyncSource",
    "SyncWriteback",
    "Table",
    "Target",
    "Then",
    "TopicMasks",
    "TopicWishes",
    "Writeback",
    "from_wire",
    "holds_topic",
    "load",
    "load_for_store",
    "load_text",
    "mask",
    "parse_columns",
    "per_second",
    "retry_in_topics",
    "retry_out_topic",
    "retry_prefix",
    "retry_topics",
    "to_wire",
]
