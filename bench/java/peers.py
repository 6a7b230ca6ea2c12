"""Peers that are written in Java: their sources have a folder each beside this file, named like their archives in
bench/java/jars.lock, which are locked apart from the product's: `python -m bench.java.peers` locks them anew.
"""

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from enrich.dev.servers.java import find_java
from enrich.jars import JarCache, read_lock
from enrich.jars.cache import cache_folder
from enrich.jars.lock import write_lock
from enrich.jars.relock import resolve

_SETS: Mapping[str, tuple[str, ...]] = {
    "streams": ("org.apache.kafka:kafka-streams:4.3.1", "org.slf4j:slf4j-nop:1.7.36"),
    "debezium": (
        "io.debezium:debezium-api:3.6.1.Final",
        "io.debezium:debezium-embedded:3.6.1.Final",
        "io.debezium:debezium-connector-postgres:3.6.1.Final",
        "org.apache.kafka:kafka-clients:4.3.1",
        "org.slf4j:slf4j-nop:1.7.36",
    ),
}
_LOCK = Path(__file__).with_name("jars.lock")


FOR_THROUGHPUT = ("-Xmx2g", "-XX:+UseParallelGC")


def compiled(set_name: str, folder: Path) -> list[str]:
    """The command that runs a program of these, to be followed by options and its name. The classes are in `folder`."""
    java = str(find_java())
    archives = [str(path) for path in JarCache(cache_folder(), read_lock(_LOCK)).paths(set_name)]
    class_path = ":".join([*archives, str(folder)])
    sources = [str(path) for path in sorted(Path(__file__).with_name(set_name).glob("*.java"))]
    compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*compiler, "-cp", class_path, "-d", str(folder), *sources], check=True)
    return [java, "-cp", class_path]


def main() -> None:
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="relock-", dir=cache_folder()) as folder:
        artifacts = [
            artifact for name, coordinates in _SETS.items() for artifact in resolve(name, coordinates, Path(folder))
        ]
    write_lock(artifacts, _LOCK, command="python -m bench.java.peers", source="bench/java/peers.py")


if __name__ == "__main__":
    main()
