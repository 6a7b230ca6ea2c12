"""The cluster as a process, and what a program needs to find it and a test to look into it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from enrich.dev.servers.java import find_java
from tests.support.class_archive import QUICK
from tests.support.spark.standalone import environment, jvms_of
from tests.support.waiting import wait_until
from tests.support.yarn.archives import archives

_SPARK = Path(pyspark.__file__).parent
_SOURCE = Path(__file__).with_name("YarnCluster.java")
_EXECUTOR = "YarnCoarseGrainedExecutorBackend"
_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"


@dataclass(frozen=True)
class YarnCluster:
    folder: Path

    def environment(self, **more: str) -> dict[str, str]:
        """Of a program that submits to it."""
        return environment(HADOOP_CONF_DIR=str(self.folder / "conf"), **more)

    def settings(self) -> list[str]:
        """What a user's Spark has in its spark-defaults.conf: where Spark's jars are on the hosts."""
        return [
            *("--conf", f"spark.yarn.jars=local:{_SPARK}/jars/*"),
            *("--conf", f"spark.yarn.stagingDir=file://{self.folder}/staging"),
        ]

    def executors(self) -> list[psutil.Process]:
        """Their JVMs."""
        return jvms_of(_EXECUTOR)

    def drivers(self) -> list[psutil.Process]:
        """Those of cluster mode: the JVMs of application masters."""
        return jvms_of(_MASTER)


@contextmanager
def yarn_cluster(folder: Path) -> Iterator[YarnCluster]:
    (folder / "conf").mkdir()
    java = str(find_java())
    class_path = ":".join([*map(str, archives()), f"{_SPARK}/jars/*"])
    ready = folder / "said"
    with (folder / "log").open("wb") as log, ready.open("wb") as said:
        running = subprocess.Popen(
            [java, *QUICK, "-Xmx512m", "-cp", class_path, str(_SOURCE), str(folder / "conf")],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=log,
            # Its folder of containers is made where it runs.
            cwd=folder,
            env=environment(JAVA_HOME=str(Path(java).parent.parent)),
        )
    try:

        def is_ready() -> bool:
            assert running.poll() is None, (folder / "log").read_text(encoding="utf-8")
            return b"ready" in ready.read_bytes()

        wait_until(is_ready, what="YARN")
        yield YarnCluster(folder)
    finally:
        _end(running)


def _end(running: "subprocess.Popen[bytes]") -> None:
    """With its containers, which are children of shells in sessions of their own."""
    left = psutil.Process(running.pid).children(recursive=True) if running.poll() is None else []
    running.kill()
    running.communicate()
    for child in left:
        with suppress(psutil.Error):
            child.kill()
