"""Rewrites `jars.lock` from the coordinates below: `python -m enrich.jars --lock`."""

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from enrich.base.errors import ConfigError
from enrich.jars.cache import cache_folder
from enrich.jars.fetch import sha256_of
from enrich.jars.lock import Artifact, parse_coordinate, write_lock

# The sets that are resolved with all run-time dependencies of their artifacts.
RESOLVED: dict[str, tuple[str, ...]] = {
    # Kafka logs through SLF4J 1.7 and ships no back end for it: without slf4j-simple a failing broker logs nothing.
    "kafka": ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36"),
    # The token provider 4.2.0 is not on Maven Central. Since 4.1.0-preview1 is listed here, next to the connector, it
    # wins by Maven's rule "nearest first"; it only lacks two log keys in the code of delegation tokens.
    "spark": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    ),
}
# The sets that are a single file without dependencies.
SINGLE: dict[str, str] = {"registry": "io.apicurio:apicurio-registry-app:3.0.9:all:tar.gz"}


def relock() -> list[Artifact]:
    """Resolves and downloads everything, and replaces the lock file."""
    shipped = _shipped_by_pyspark()
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="relock-", dir=cache_folder()) as folder:
        artifacts = [
            artifact
            for set_name, coordinates in RESOLVED.items()
            for artifact in resolve(set_name, coordinates, Path(folder))
            if set_name != "spark" or not _is_shipped(artifact, shipped)
        ]
        artifacts += [single(set_name, text, Path(folder)) for set_name, text in SINGLE.items()]
    write_lock(artifacts)
    return artifacts


def resolve(set_name: str, coordinates: tuple[str, ...], folder: Path) -> list[Artifact]:
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=folder)
    # The `!` selects Maven's own rules; without it jgo applies each artifact's managed versions to the others.
    wanted = [context.create_dependency(f"{coordinate}!") for coordinate in coordinates]
    direct, further = context.resolver.resolve(wanted)
    return [_locked(set_name, dependency.artifact) for dependency in (*direct, *further)]


def single(set_name: str, text: str, folder: Path) -> Artifact:
    from jgo.maven import MavenContext

    wanted = parse_coordinate(text, set_name=set_name)
    version = MavenContext(repo_cache=folder).project(wanted.group, wanted.name).at_version(wanted.version)
    return _locked(set_name, version.artifact(wanted.classifier, wanted.type))


def _locked(set_name: str, artifact: Any) -> Artifact:
    sha256 = sha256_of(Path(artifact.resolve()))
    text = f"{artifact.groupId}:{artifact.artifactId}:{artifact.version}:{artifact.classifier}:{artifact.packaging}"
    return parse_coordinate(text, set_name=set_name, sha256=sha256 or "")


def _shipped_by_pyspark() -> list[str]:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "PySpark is not installed: its own jars must stay out of the lock", next_step="install it, then try again"
        )
    return [path.name for path in (Path(spec.origin).parent / "jars").glob("*.jar")]


def _is_shipped(artifact: Artifact, shipped: list[str]) -> bool:
    """Whether PySpark ships it, in any version: two versions of a library on Spark's class path are worse than a single
    slightly older one."""
    start = f"{artifact.name}-"
    return any(name.startswith(start) and name[len(start) :][:1].isdigit() for name in shipped)
