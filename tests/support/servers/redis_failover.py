"""A Redis with a replica and a sentinel that watches both: real servers, and a real failover."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.support.ports import free_port
from tests.support.servers.redis_server import RedisServer, redis_server
from tests.support.waiting import wait_until

_NAME = "mymaster"


class RedisGroup:
    """Lives until its block ends."""

    def __init__(self, folder: Path, held: ExitStack) -> None:
        self._first = self._server(folder / "first", held)
        self.master: Any = self._first.start()
        self.master.acl_setuser("copier", enabled=True, nopass=True, commands=["+psync", "+replconf", "+ping"])
        self._second = self._server(folder / "second", held)
        self.replica: Any = self._second.start(
            *("--replicaof", "127.0.0.1", str(self._first.port), "--masteruser", "copier", "--masterauth", "any")
        )
        wait_until(lambda: self.master.info("replication")["connected_slaves"] == 1, what="the replica")
        self._sentinel_port = free_port()
        held.enter_context(self._sentinel(folder / "sentinel"))
        sentinel: Any = redis.Redis(port=self._sentinel_port)
        wait_until(lambda: self._sees_replica(sentinel), what="a sentinel that knows both")

    @property
    def to(self) -> dict[str, Any]:
        """What a target says to follow the master."""
        return {"url": f"redis://127.0.0.1:{self._sentinel_port}", "sentinel": _NAME}

    def cut_replication(self) -> None:
        """The replica may not come back: what the master acknowledges from now on, it alone has."""
        self.master.acl_setuser("copier", enabled=False)
        self.master.client_kill_filter(_type="replica")
        wait_until(lambda: self.replica.info("replication")["master_link_status"] == "down", what="the cut")

    def has_copied(self) -> bool:
        """All that the master was told."""
        copied = self.replica.info("replication")["slave_repl_offset"]
        return bool(copied >= self.master.info("replication")["master_repl_offset"])

    @property
    def master_url(self) -> str:
        return self._first.url

    def kill_master(self) -> None:
        self._first.kill()

    def copy_replica_to_master(self) -> None:
        """The master takes what the replica has, in place of its own, and is a master again."""
        self.replica.replicaof("NO", "ONE")
        self.master.replicaof("127.0.0.1", str(self._second.port))
        wait_until(lambda: self.master.info("replication")["master_link_status"] == "up", what="the copy")
        self.master.replicaof("NO", "ONE")

    @staticmethod
    def _server(folder: Path, held: ExitStack) -> RedisServer:
        folder.mkdir()
        return held.enter_context(redis_server(folder))

    @contextmanager
    def _sentinel(self, folder: Path) -> Iterator[None]:
        folder.mkdir()
        file = folder / "sentinel.conf"
        lines = [
            f"port {self._sentinel_port}",
            "bind 127.0.0.1",
            f"sentinel monitor {_NAME} 127.0.0.1 {self._first.port} 1",
            f"sentinel down-after-milliseconds {_NAME} 500",
        ]
        file.write_text("\n".join(lines))
        process = subprocess.Popen([self._first.program, file, "--sentinel"], cwd=folder, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait()

    @staticmethod
    def _sees_replica(sentinel: Any) -> bool:
        try:
            return len(sentinel.sentinel_slaves(_NAME)) == 1
        except redis.RedisError:
            return False


@contextmanager
def redis_group(folder: Path) -> Iterator[RedisGroup]:
    with ExitStack() as held:
        yield RedisGroup(folder, held)
