"""Real Apache Kafka brokers (KRaft). The first is the controller too; others join it, and may be killed without it."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from enrich.dev.servers import java, secure
from enrich.dev.servers.ports import is_listening
from enrich.dev.servers.server import HOST, Command, Home, Prepare, RunStep, Server
from enrich.jars import Report, jars

_HEAP = "768m"
# The optimising compiler waits until methods are four times as hot as by default: a start then takes 2.8 s of CPU time
# instead of 3.7 s (measured), and the hot code of a broker under load is compiled all the same.
_COMPILER = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
    "-Dorg.slf4j.simpleLogger.showShortLogName=true",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",  # all settings, 350 lines at each start
)

# All settings but the addresses. Settings that are not here have Kafka's defaults.
_SETTINGS = {
    "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "BROKER",
    "controller.listener.names": "CONTROLLER",
    # A topic that nobody created is a misspelt name.
    "auto.create.topics.enable": "false",
    # Few partitions in the internal topics: they are created during the first test that needs them.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Tests of killed members wait for the end of their sessions; by default Kafka allows no session below 6 s.
    "group.min.session.timeout.ms": "1000",
    # A broker that restarts after a kill is refused until its former session has ended. With Kafka's 9 s that restart
    # takes 11.7 s; with 6 s it takes 8 s. With 3 s a busy machine, which pauses now and then, fences its only broker,
    # and for a while there is no controller: it happened.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    # What a killed client has left open is ended as soon as its time is up, and not up to ten seconds later.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Compaction and deletion soon enough for tests; cleaner memory that suits small topics (the default is 128 MB).
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.backoff.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
}
_COPIES = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_COPIES_IN_SYNC = ("transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")


@dataclass(frozen=True)
class Kafka(Server):
    name: str = "kafka"
    port_names: tuple[str, ...] = ("broker", "controller")
    patience: float = 60.0
    node: int = 1
    brokers: int = 1
    """How many the cluster has: so many copies a topic has, unless it says otherwise, and the internal topics."""

    def equip(self, report: Report | None) -> Prepare:
        program = java.find_java()
        class_path = os.pathsep.join(map(str, jars("kafka", report)))

        def prepare(home: Home, run: RunStep) -> Command:
            def kafka(*arguments: str, flags: tuple[str, ...] = ()) -> Command:
                argv = (str(program), *java.arguments(home.folder, _HEAP), *_LOGGING, *flags, *arguments)
                return Command(argv, {"CLASSPATH": class_path})  # not in argv: its 5 KB would hide the rest in `ps`

            if secure.PORT in home.ports:
                secure.make_certificates(home, run, program)
            data, formatted = home.folder / "data", home.folder / "formatted"
            self._write_settings(home, "server.properties", data)
            if not data.exists():
                # Into another folder, then renamed: an interrupted format leaves nothing that looks like data.
                shutil.rmtree(formatted, ignore_errors=True)
                self._write_settings(home, "format.properties", formatted)
                format_data = (
                    "kafka.tools.StorageTool",
                    "format",
                    "-t",
                    _cluster(home).token,
                    "-c",
                    "format.properties",
                )
                run(kafka(*format_data, flags=("-XX:TieredStopAtLevel=1",)))
                formatted.replace(data)
            return kafka("kafka.Kafka", "server.properties", flags=_COMPILER)

        return prepare

    def answers(self, home: Home) -> bool:
        if not is_listening(home.port):
            return False
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        # log_level 0: librdkafka's messages about a broker that is not up yet are expected.
        client = AdminClient({"bootstrap.servers": self.address(home), "log_level": 0})
        try:
            metadata = client.list_topics(timeout=1.0)
        except KafkaException:
            return False
        # The cluster id distinguishes this broker from another stack's. A broker is listed once it is not fenced.
        return str(metadata.cluster_id) == _cluster(home).token and self.node in metadata.brokers

    def address(self, home: Home) -> str:
        return f"{HOST}:{home.port}"

    def _write_settings(self, home: Home, name: str, data: Path) -> None:
        broker = f"{HOST}:{home.port}"
        controller = f"{HOST}:{_cluster(home).ports['controller']}"
        listeners, protocols = f"BROKER://{broker}", _SETTINGS["listener.security.protocol.map"]
        more: Mapping[str, str] = {}
        if secure.PORT in home.ports:
            listeners += f",SECURE://{HOST}:{home.ports[secure.PORT]}"
            protocols, more = f"{protocols},SECURE:SASL_SSL", secure.settings(home)
        settings = {
            **_SETTINGS,
            **dict.fromkeys(_COPIES, str(self.brokers)),
            **dict.fromkeys(_COPIES_IN_SYNC, str(max(1, self.brokers - 1))),
            **more,
            "process.roles": "broker,controller" if home.joins is None else "broker",
            "node.id": str(self.node),
            "listener.security.protocol.map": protocols,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": listeners if home.joins is not None else f"{listeners},CONTROLLER://{controller}",
            "advertised.listeners": listeners,
            "log.dirs": data.name,  # relative: the folder's path may contain what properties files must escape
        }
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        (home.folder / name).touch(mode=0o600)  # with the secure listener it contains a password
        (home.folder / name).write_text(lines, encoding="utf-8")


def _cluster(home: Home) -> Home:
    """The home of the cluster's first broker: it has the cluster's id and the controller's port."""
    return home.joins or home
