"""The Java that runs the broker and the registry."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from enrich.base.errors import ConfigError

OLDEST = 17

# For a faster start: no file of performance counters, which would also be written to /tmp.
FLAGS = ("-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError")


def find_java() -> Path:
    """The `java` of JAVA_HOME, else the one on PATH. Raises ConfigError if there is none, or if it is too old."""
    java = _in_java_home() or _on_path()
    version = _version(java)
    if version < OLDEST:
        raise ConfigError(
            f"Java {version} is too old: Java {OLDEST} or newer is needed",
            where=str(java),
            next_step=f"install a Java runtime {OLDEST} or newer and put it on PATH, or set JAVA_HOME to it",
        )
    return java


def arguments(folder: Path, heap: str) -> tuple[str, ...]:
    """Flags for every Java server here. Files that the JVM writes stay in the server's folder."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return (
        f"-Xmx{heap}",
        *FLAGS,
        f"-Djava.io.tmpdir={temporary}",
        f"-XX:ErrorFile={folder / 'crash-%p.log'}",
        f"-Denrich.stack={folder.parent}",  # shows people in `ps` to which stack the process belongs
    )


def _in_java_home() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    if not home:
        return None
    java = Path(home, "bin", "java")
    if not java.is_file():
        raise ConfigError(
            "JAVA_HOME names a folder without bin/java", where=home, next_step="correct it, or unset it to use PATH"
        )
    return java


def _on_path() -> Path:
    java = shutil.which("java")
    if java is None:
        raise ConfigError(
            f"Java {OLDEST} or newer is needed, and none was found: no `java` on PATH, and JAVA_HOME is not set",
            next_step=f"install a Java runtime {OLDEST} or newer (Debian and Ubuntu: openjdk-{OLDEST}-jre-headless)",
        )
    return Path(java)


def _version(java: Path) -> int:
    # Every JDK has its version in a file; running the program starts a JVM, which takes 0.1 s or more.
    release = java.resolve().parent.parent / "release"
    if release.is_file():
        match = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(encoding="utf-8", errors="replace"), re.M)
        if match:
            return _major(match[1])
    try:
        answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"Java cannot be run: {error}", where=str(java)) from error
    match = re.search(r'version "([^"]+)"', answer.stderr)
    if match is None:
        raise ConfigError(f"Java does not print its version: {answer.stderr.strip()[:200]}", where=str(java))
    return _major(match[1])


def _major(version: str) -> int:
    first, second = (*re.findall(r"\d+", version), "0", "0")[:2]
    return int(second) if first == "1" else int(first)  # 1.8.0_392 is Java 8
