"""Archives of the classes that a JVM loads, of its own making: a start with one takes half the processor time.

One for each checkout; the first that asks makes it.
"""

import fcntl
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from enrich.dev.servers.java import find_java

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Code that runs for seconds is not worth compiling a second time, small memory not worth many threads' care."""

_SILENT = ("-Xlog:disable", "-Xlog:all=error:stderr")


def with_archive(module: str, made_for: bytes) -> tuple[str, ...]:
    """Options of `java`. `module` is a program that, given options as one text and a folder, runs a JVM with them that
    loads what its kind loads; `made_for`: whatever an archive does not fit any more when it changes."""
    name = module.rpartition(".")[2]
    archive = _archive(name, made_for)
    if not archive.exists():
        with archive.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of a run ask at the same time
            if not archive.exists():
                _make(archive, module, name)
    # The JVM looks whether the archive fits its class path, and does without it otherwise; it need not say so.
    return (f"-XX:SharedArchiveFile={archive}", *_SILENT)


def _archive(name: str, made_for: bytes) -> Path:
    java = subprocess.run([find_java(), "-version"], capture_output=True, check=True).stderr
    key = hashlib.sha256(java + made_for + Path(__file__).read_bytes()).hexdigest()
    return Path(sys.prefix) / f"{name}-classes-{key[:12]}.jsa"


def _make(archive: Path, module: str, name: str) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        options = shlex.join([f"-XX:ArchiveClassesAtExit={made}", *_SILENT])
        subprocess.run(
            [sys.executable, "-m", module, options, folder],
            # Spark's daemon of workers has to find this project's packages, wherever the tests were started.
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            check=True,
            timeout=900,  # a busy machine takes many times the quarter of a minute
            capture_output=True,
        )
        for older in archive.parent.glob(f"{name}-classes-*.jsa"):
            older.unlink()  # up to 160 MB each; a JVM that uses one has it mapped
        made.replace(archive)
