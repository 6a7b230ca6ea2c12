"""What must hold of docker-compose.yml. Each check returns the problems it found, in words."""

import itertools
import re
from collections.abc import Callable, Collection

from edge_service.ingest import program as ingest
from edge_service.ingest.processes import worker
from enrich.service import program as routes
from observe_service import program as observer
from tests.unit.deploy.commands import command_problems
from tests.unit.deploy.compose import OUR_IMAGE, Compose, Service
from tests.unit.deploy.installed import ROOT, locked_jars, our_code_knows, project, read, spark_knows

_SERVICE_KEYS = {
    *("build", "command", "depends_on", "environment", "healthcheck", "hostname", "image", "init"),
    *("mem_limit", "networks", "ports", "profiles", "restart", "stop_grace_period", "volumes"),
}
STOP_S = max(ingest._STOP_S, worker._STOP_S, routes._STOP_S, observer._STOP_S) + 5
"""After so many seconds a program of ours that hangs has ended itself, by the kernel's timer if need be."""
_HEALTH_KEYS = {"interval", "retries", "start_period", "test", "timeout"}
_CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
_PINNED = re.compile(r"v?\d+\.\d+(\.\d+)?(-[\w.]+)?")
_SECRET = re.compile("PASSWORD|AUTH|SECRET|TOKEN")
_FROM_ENVIRONMENT = re.compile(r"\$\{\w+:-(?P<default>[^}]*)\}")
# What the documentation of these images names; only what we use, or would without a second thought.
_OF_IMAGES = {
    "grafana/grafana": {"GF_SECURITY_ADMIN_USER", "GF_SECURITY_ADMIN_PASSWORD"},
    "postgres": {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"},
    "redis": {"REDISCLI_AUTH"},
}


def structure_problems(compose: Compose) -> list[str]:
    """Misspelt keys, and names of services, volumes, networks and conditions that are none."""
    top = {"name", "networks", "services", "volumes"}
    problems = [f"no such setting: {key}" for key in compose.raw if key not in top and not key.startswith("x-")]
    for name, service in compose.services.items():
        problems += [f"{name}: no such setting: {key}" for key in service.raw if key not in _SERVICE_KEYS]
        checked = service.raw.get("healthcheck", {})
        problems += [f"{name}: no such setting of a health check: {key}" for key in checked if key not in _HEALTH_KEYS]
        if "build" in service.raw and not (ROOT / service.raw["build"] / "Dockerfile").is_file():
            problems.append(f"{name}: no Dockerfile in {service.raw['build']}")
        for other, condition in service.depends_on.items():
            if other not in compose.services:
                problems.append(f"{name}: depends on {other}, which is no service")
            elif condition == "service_healthy" and not compose.services[other].health_check:
                problems.append(f"{name}: waits for the health of {other}, which has no health check")
            if condition not in _CONDITIONS:
                problems.append(f"{name}: no such condition: {condition}")
        problems += [
            f"{name}: no such network: {one}" for one in service.raw.get("networks", []) if one not in compose.networks
        ]
    return problems


def mount_problems(compose: Compose) -> list[str]:
    problems = []
    used = set()
    for name, service in compose.services.items():
        for mount in service.mounts:
            if not mount.is_file_of_the_repository:
                used.add(mount.source)
                if mount.source not in compose.volumes:
                    problems.append(f"{name}: no such volume: {mount.source}")
            elif not (ROOT / mount.source).exists():
                problems.append(f"{name}: no such file or folder: {mount.source}")
            elif mount.options != ("ro",):
                problems.append(f"{name}: {mount.source} can be written by the container")
    return problems + [f"the volume {name} is not used" for name in sorted(compose.volumes - used)]


def image_problems(compose: Compose) -> list[str]:
    """Images that are not pinned, or that are other versions than the ones the tests run on."""
    problems = []
    expected = {OUR_IMAGE: project()["version"], "apache/kafka": locked_jars("kafka")["kafka_2.13"]}
    for name, service in compose.services.items():
        tag = service.image.removeprefix(service.image_name).removeprefix(":")
        if not _PINNED.fullmatch(tag):
            problems.append(f"{name}: the image is not pinned: {service.image}")
        elif tag != expected.get(service.image_name, tag):
            problems.append(f"{name}: {service.image} should be version {expected[service.image_name]}")
    return problems


def our_command_problems(compose: Compose) -> list[str]:
    problems = []
    for name, service in compose.services.items():
        if not service.is_ours:
            continue
        problems += [f"{name}: {problem}" for problem in command_problems(service.command)]
        if service.health_check:
            kind, *words = service.health_check
            found = command_problems(words) if kind == "CMD" else [f"a health check in a shell: {kind}"]
            problems += [f"{name}: health check: {problem}" for problem in found]
    return problems


def environment_problems(compose: Compose) -> list[str]:
    """Variables that nobody reads. Kafka's are checked against a broker, by `unknown_kafka_settings`."""
    return [
        f"{name}: nobody reads {variable}"
        for name, service in compose.services.items()
        for variable in service.environment
        if service.image_name != "apache/kafka"
        and not is_read(variable, _OF_IMAGES.get(service.image_name, set()) | _read_by_files(service))
    ]


def _read_by_files(service: Service) -> set[str]:
    """What the pipeline's file that the service is given takes from the environment."""
    files = (read(mount.source) for mount in service.mounts if service.is_ours and mount.is_file_of_the_repository)
    return {name for text in files for name in re.findall(r"\$\{(\w+)", text)}


def is_read(variable: str, others: Collection[str] = ()) -> bool:
    if variable in others:
        return True
    if variable.startswith("ENRICH_"):
        return our_code_knows(variable)
    return variable.startswith(("SPARK_", "PYSPARK_")) and spark_knows(variable)


def java_option_problems(compose: Compose) -> list[str]:
    """-Dspark.... settings that Spark does not know."""
    return [
        f"{name}: Spark does not know the setting {setting}"
        for name, service in compose.services.items()
        for value in service.environment.values()
        for setting in re.findall(r"-D(spark\.[\w.]+)=", value)
        if not spark_knows(setting)
    ]


def password_problems(unfilled: Compose) -> list[str]:
    """Passwords that are fixed, or whose default could be taken for one to keep."""
    problems = []
    for name, service in unfilled.services.items():
        named = [value for variable, value in service.environment.items() if _SECRET.search(variable)]
        given = [value for option, value in itertools.pairwise(service.command) if option == "--requirepass"]
        for value in (*named, *given):
            default = _FROM_ENVIRONMENT.fullmatch(value)
            if default is None:
                problems.append(f"{name}: a password that is not taken from the environment: {value}")
            elif default["default"] != "for-development-only":
                problems.append(f"{name}: the default of a password does not say what it is for: {value}")
    return problems


def health_problems(compose: Compose) -> list[str]:
    """Services that are started by default and cannot be waited for."""
    ending = {
        other
        for service in compose.services.values()
        for other, condition in service.depends_on.items()
        if condition == "service_completed_successfully"
    }
    return [
        f"{name}: no health check"
        for name, service in compose.services.items()
        if not service.health_check and not service.raw.get("profiles") and name not in ending
    ]


def stop_problems(compose: Compose) -> list[str]:
    """Programs of ours that are killed before they have done what is due. Compose waits for 10 s by itself."""
    return [
        f"{name}: is killed before it has ended"
        for name, service in compose.services.items()
        if {"sync_service", "edge_service", "observe_service"} & {*service.command}
        and not int(service.raw.get("stop_grace_period", "10s").removesuffix("s")) > STOP_S
    ]


def kafka_settings(compose: Compose) -> dict[str, str]:
    """The broker's settings, from the variables as the start script of apache/kafka reads them."""
    return {
        name.removeprefix("KAFKA_").lower().replace("_", ".").replace("...", "-").replace("..", "_"): value
        for name, value in compose.services["kafka"].environment.items()
        if name.startswith("KAFKA_")
    }


def unknown_kafka_settings(compose: Compose, known: Collection[str]) -> list[str]:
    return [f"kafka: the broker has no setting {name}" for name in kafka_settings(compose) if name not in known]


CHECKS: tuple[Callable[[Compose], list[str]], ...] = (
    structure_problems,
    mount_problems,
    image_problems,
    our_command_problems,
    environment_problems,
    java_option_problems,
    health_problems,
    stop_problems,
)
