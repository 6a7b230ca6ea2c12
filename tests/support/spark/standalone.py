"""A real Spark standalone cluster on this machine: a master and two workers from PySpark's package, as processes."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pyspark

from enrich.dev.servers.ports import choose, is_listening
from tests.support.spark.quick_jvm import quick_jvm
from tests.support.waiting import wait_until

HOST = "127.0.0.1"
_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
STAGE_JOB = Path(__file__).parents[3] / "jobs" / "enrich_stage.py"
_DEPLOY = "org.apache.spark.deploy"
_EXECUTOR = "CoarseGrainedExecutorBackend"


def environment(**more: str) -> dict[str, str]:
    """Without whatever this machine has set for Spark; executors take the Python that the driver names."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    own = {"SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": quick_jvm()}
    return {**inherited, **own, **more}


class Connections:
    """What executors connect to, with all processes that they start: written down by strace, call by call."""

    def __init__(self, folder: Path) -> None:
        self._traces = folder / "traces"
        self._traces.mkdir()
        java = shutil.which("java")
        assert java is not None
        self.java_home = folder / "java"
        wrapper = self.java_home / "bin" / "java"
        wrapper.parent.mkdir(parents=True)
        wrapper.write_text(
            f"""#!/bin/sh
case "$*" in
*{_EXECUTOR}*) exec strace -f --seccomp-bpf -qq -e trace=connect -o {self._traces}/$$ {java} "$@" ;;
*) exec {java} "$@" ;;
esac
"""
        )
        wrapper.chmod(0o755)

    def forget(self) -> None:
        for trace in self._traces.iterdir():
            trace.write_text("")

    def ports(self) -> set[int]:
        """Where TCP and UDP led."""
        calls = "".join(trace.read_text(encoding="utf-8", errors="replace") for trace in self._traces.iterdir())
        return {int(port) for port in re.findall(r"connect\(.*AF_INET6?,.*?port=htons\((\d+)\)", calls)}

    def names(self) -> set[str]:
        """Unix sockets."""
        calls = "".join(trace.read_text(encoding="utf-8", errors="replace") for trace in self._traces.iterdir())
        return set(re.findall(r'connect\(.*AF_UNIX, sun_path="([^"]*)"', calls))


@contextmanager
def standalone_cluster(folder: Path, connections: Connections) -> Iterator[str]:
    """Its address, as `--master` takes it. Each worker offers one core, so that each has an executor of a job."""
    port, page, *pages = choose(4, set())
    master = f"spark://{HOST}:{port}"
    with ExitStack() as held:

        def start(name: str, *words: str) -> None:
            log = held.enter_context((folder / f"{name}.log").open("wb"))
            running = subprocess.Popen(
                [_CLASS, *words],
                cwd=folder,
                stdout=log,
                stderr=log,
                env=environment(SPARK_WORKER_DIR=str(folder / name), JAVA_HOME=str(connections.java_home)),
            )
            held.callback(_end, running)

        start("master", f"{_DEPLOY}.master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(page))
        wait_until(lambda: is_listening(port), what="the master")
        for number, own in enumerate(pages):
            offers = ("--cores", "1", "--memory", "1g", "--host", HOST)
            start(f"worker{number}", f"{_DEPLOY}.worker.Worker", *offers, "--webui-port", str(own), master)
        for own in pages:
            wait_until(lambda own=own: is_listening(own), what="a worker")  # type: ignore[misc]
        yield master


def executors() -> list[int]:
    """The JVMs of executors that this process's cluster, or its jobs, run."""
    return [each.pid for each in jvms_of(_EXECUTOR)]


def jvms_of(program: str) -> list[psutil.Process]:
    """Descendants of this process that run it."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            # The shell that it may be started by has the same words.
            if child.name() == "java" and any(program in word for word in child.cmdline()):
                found.append(child)
    return found


def sparks_ports() -> set[int]:
    """On which Spark's processes listen that are descendants of this one: the cluster, drivers, executors."""
    ports = set()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if child.name() == "java" and any("org.apache.spark" in word for word in child.cmdline()):
                ports |= {each.laddr.port for each in child.net_connections() if each.status == psutil.CONN_LISTEN}
    return ports


def _end(running: "subprocess.Popen[bytes]") -> None:
    """With whatever it started."""
    children = psutil.Process(running.pid).children(recursive=True) if running.poll() is None else []
    running.terminate()
    try:
        running.wait(timeout=60)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
    for child in children:
        with suppress(psutil.Error):
            child.kill()


PYTHON = {"PYSPARK_PYTHON": sys.executable}
