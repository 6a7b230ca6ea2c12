"""What the mini cluster needs beside PySpark's own jars, which have Hadoop's client."""

import tempfile
from pathlib import Path

from enrich.jars import JarCache, read_lock
from enrich.jars.cache import cache_folder
from enrich.jars.lock import write_lock
from enrich.jars.relock import single

_SET = "yarn"
_LOCK = Path(__file__).with_name("jars.lock")
_NEEDED = (
    # The version of PySpark's hadoop-client jars.
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    # MiniYARNCluster asserts something, and its resource manager makes certificates.
    "org.junit.jupiter:junit-jupiter-api:5.13.4",
    "org.bouncycastle:bcpkix-jdk18on:1.82",
    "org.bouncycastle:bcprov-jdk18on:1.82",
    "org.bouncycastle:bcutil-jdk18on:1.82",
)


def archives() -> list[Path]:
    return JarCache(cache_folder(), read_lock(_LOCK)).paths(_SET)


def main() -> None:
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="relock-", dir=cache_folder()) as folder:
        found = [single(_SET, coordinate, Path(folder)) for coordinate in _NEEDED]
    write_lock(found, _LOCK, command="python -m tests.support.yarn.archives", source="tests/support/yarn/archives.py")


if __name__ == "__main__":
    main()
