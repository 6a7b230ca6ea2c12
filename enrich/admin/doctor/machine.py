"""Checks of this machine: programs, memory, and the disk of the stores."""

import errno
import os
import platform
import stat
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from enrich.admin.doctor.verdict import Verdict, bad, good, warning
from enrich.base.errors import ConfigError, Fatal
from enrich.config import Pipeline
from enrich.config.types.quantities import size_text
from enrich.dev.servers.java import find_java
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import living_agent

_PACKAGES = ("enrich", "pyspark", "confluent-kafka", "pyarrow", "rocksdict", "polars")
_NETWORK = ("nfs", "cifs", "smb", "fuse.sshfs", "ceph", "glusterfs", "lustre", "9p")
_PROBE_BYTES = 16 << 20
_SLOW_BYTES_PER_S = 50 << 20
_SLOW_SYNC_S = 0.1
_LEAST_FREE = 1 << 30


def of_machine() -> Iterator[Verdict]:
    """Checks that need no configuration."""
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield bad("versions", f"the package {name} is not installed", "install enrich again: make setup")
    yield good("versions", f"Python {platform.python_version()}, {', '.join(found)}")
    try:
        yield good("java", f"{find_java()}")
    except ConfigError as error:
        yield bad("java", error.what, error.next_step)


def of_memory(pipeline: Pipeline) -> Verdict:
    budget, there = pipeline.memory.budget, _memory("MemTotal")
    what = f"the budget is {size_text(budget)}, the host has {there / 2**30:.1f} GiB"
    if budget > there:
        return bad("memory", what, "lower memory.budget: the system would kill the agent or the readers")
    if budget > _memory("MemAvailable"):
        return warning("memory", f"{what}, and less than that is free now", "stop something, or lower memory.budget")
    return good("memory", what)


def of_state_dir(pipeline: Pipeline) -> Iterator[Verdict]:
    """Of one that does not exist yet, the place is checked where it will be made: doctor makes nothing."""
    folder = Path(pipeline.state_dir)
    try:
        there = _nearest(folder)
        system = _file_system(there)
        lies = "is on" if there == folder else "will be made at the first start, on"
        if any(system.startswith(kind) for kind in _NETWORK):
            what = f"{folder} {lies} {system}, a network file system"
            yield bad("state_dir", what, "set state_dir to a local disk")
        elif system in ("tmpfs", "ramfs"):
            what = f"{folder} {lies} {system}, which is in memory"
            yield warning("state_dir", what, "use a disk: else rows take memory twice")
        else:
            yield good("state_dir", f"{folder} {lies} {system}")
        yield _free(there)
        yield _speed(there)
    except OSError as error:
        yield bad("state_dir", f"{folder} cannot be used: {error.strerror}", "correct state_dir, or its permissions")


def of_agents(pipeline: Pipeline) -> Iterator[Verdict]:
    mine = paths_of(pipeline)
    try:
        header = living_agent(mine)
    except Fatal as error:
        yield bad("agent", str(error), "correct the permissions of state_dir")
        return
    if header is None:
        yield good("agent", "none runs for this configuration; the first reader starts one")
    else:
        waiting = [name for name, state in header.tables.items() if not state.ready]
        process = f"process {header.pid}"
        if waiting:
            yield warning("agent", f"{process}; not ready: {', '.join(waiting)}", "run `enrich agent status`")
        else:
            yield good("agent", f"{process}, all tables ready")
        for name, state in header.tables.items():
            if state.is_set_aside:
                what = f"table {name} is set aside, {state.tried_again(time.time() * 1000)}: {state.reason}"
                yield bad("set_aside", what, "repair what the reason names; the table then continues automatically")
    for folder in sorted(mine.folder.parent.glob("*-*")):
        if folder == mine.folder or not folder.is_dir():
            continue
        other = living_agent(type(mine)(folder))
        if other is not None:
            what = f"process {other.pid} is the agent of {folder}, of another configuration or release"
            yield warning("orphan_agents", what, "it ends automatically after agent.linger; or end that process")


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest above it that exists. Raises OSError if what exists there is no directory."""
    # A link to nothing counts as existing: no directory can be made in its place.
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not stat.S_ISDIR(there.stat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    return there


def _free(folder: Path) -> Verdict:
    statistics = os.statvfs(folder)
    free = statistics.f_bavail * statistics.f_frsize
    what = f"{free / 2**30:.1f} GiB are free"
    return good("disk_space", what) if free > _LEAST_FREE else bad("disk_space", what, "free some space in state_dir")


def _speed(folder: Path) -> Verdict:
    piece = os.urandom(1 << 20)
    with tempfile.TemporaryFile(dir=folder) as file:
        started = time.monotonic()
        for _ in range(_PROBE_BYTES >> 20):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        rate = _PROBE_BYTES / (time.monotonic() - started)
        started = time.monotonic()
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())
        sync_s = time.monotonic() - started
    what = f"writes {rate / 2**20:,.0f} MiB/s, a sync takes {sync_s * 1000:.1f} ms"
    if rate < _SLOW_BYTES_PER_S or sync_s > _SLOW_SYNC_S:
        return warning("disk_speed", what, "a faster disk under state_dir makes tables fresher and starts quicker")
    return good("disk_speed", what)


def _memory(name: str) -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return 0


def _file_system(folder: Path) -> str:
    """The type of the mount that is nearest above the folder."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
        _, mount, system, *_ = line.split()
        path = str(folder.resolve())
        if (path == mount or path.startswith(mount.rstrip("/") + "/")) and len(mount) >= len(best):
            best, kind = mount, system
    return kind
