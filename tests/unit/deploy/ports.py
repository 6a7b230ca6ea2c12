"""Who listens where: each host:port that a service names must be one that somebody listens on."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.unit.deploy.compose import Compose, Service, filled_in, parse_yaml
from tests.unit.deploy.installed import read

# Where the images listen that are not told to listen elsewhere.
_OF_IMAGES = {
    "grafana/grafana": {3000},
    "postgres": {5432},
    "prom/prometheus": {9090},
    "redis": {6379},
}
_ITSELF = {"127.0.0.1", "localhost"}
_ADDRESS = re.compile(r"(?<![\w.:-])(?:\d+@)?(?P<host>127\.0\.0\.1|[a-z][a-z0-9-]*):(?P<port>\d{2,5})(?!\d)")
_LISTENER = re.compile(r"(\w+)://([^:,]*):(\d+)")


def listening(service: Service) -> set[int]:
    if service.is_ours:
        options = zip(service.command, service.command[1:], strict=False)
        told = {port_of(value) for option, value in options if option in ("--port", "--webui-port", "--listen")}
        files = (read(mount.source) for mount in service.mounts if mount.is_file_of_the_repository)
        pipelines = [filled_in(parse_yaml(text), service.environment) for text in files]
        return told | {port_of(address) for pipeline in pipelines for address in _served(service, pipeline)}
    if service.image_name == "apache/kafka":
        return {port for _, _, port in listeners(service, "KAFKA_LISTENERS")}
    return _OF_IMAGES[service.image_name]


def _served(service: Service, pipeline: Mapping[str, Any]) -> Iterator[str]:
    """The addresses of a pipeline's file that its program listens on."""
    if "sync_service" in service.command:
        yield pipeline["sync"]["listen"]
    if "edge_service" in service.command:
        yield from (page for role, page in pipeline["pages"].items() if role in service.command)
    if "observe_service" in service.command:
        yield pipeline["observe"]["listen"]
    if "ingest" in service.command:
        yield from (entry["listen"] for entry in pipeline["ingest"].values())


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def listeners(service: Service, variable: str) -> list[tuple[str, str, int]]:
    """Name, host and port of each of Kafka's listeners."""
    return [(name, host, int(port)) for name, host, port in _LISTENER.findall(service.environment[variable])]


def addresses(text: str) -> Iterator[tuple[str, int]]:
    for match in _ADDRESS.finditer(text.replace("//", " ")):
        yield match["host"], int(match["port"])


def address_problems(compose: Compose, text: str, where: str, own: Service | None = None) -> list[str]:
    """What is wrong with the addresses in a text of a service (`own`) or of a file that one reads."""
    problems = []
    for host, port in addresses(text):
        target = own if host in _ITSELF else compose.services.get(host)
        if target is None:
            problems.append(f"{where}: no service is called {host}")
        elif port not in listening(target):
            problems.append(f"{where}: {target.name} does not listen on {port}")
    return problems


def port_problems(compose: Compose) -> list[str]:
    problems: list[str] = []
    taken: dict[int, str] = {}
    for name, service in compose.services.items():
        for text in service.strings:
            problems += address_problems(compose, text, name, service)
        for published in service.published:
            if published.container_port not in listening(service):
                problems.append(f"{name}: publishes {published.container_port}, where nothing listens")
            if published.address != "127.0.0.1":
                problems.append(f"{name}: port {published.port} is open to other machines")
            if published.port in taken:
                problems.append(f"{name}: port {published.port} is published by {taken[published.port]} already")
            taken[published.port] = name
    return problems


def listener_problems(kafka: Service) -> list[str]:
    """A client goes where the broker tells it to: the advertised addresses must lead back to its listeners."""
    bound = {name: port for name, _, port in listeners(kafka, "KAFKA_LISTENERS")}
    protocols = dict(pair.split(":") for pair in kafka.environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    published: Mapping[int, int] = {one.port: one.container_port for one in kafka.published}
    problems = [f"the listener {name} has no security protocol" for name in bound if name not in protocols]
    for name, host, port in listeners(kafka, "KAFKA_ADVERTISED_LISTENERS"):
        reached = published.get(port) if host == "localhost" else port if host == kafka.name else None
        if name not in bound:
            problems.append(f"the advertised listener {name} is none")
        elif reached != bound[name]:
            problems.append(f"{host}:{port} does not lead to the listener {name} on {bound[name]}")
    return problems
