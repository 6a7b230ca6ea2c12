"""Two hosts of the tests' own, in network namespaces: servers on one, the product on the other, and a link that can be
made to swallow whatever is sent, without a reset and without an error.

Asks for no rights: a user namespace gives them where the kernel lets everybody make one.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The servers' host has two addresses, so that the broker can fall silent and the databases not.
BROKER, DATABASES, CLIENT = "10.99.0.1", "10.99.0.3", "10.99.0.2"


def inside(command: list[str]) -> list[str]:
    """The command, run in a network namespace of its own with all rights over it."""
    if os.geteuid() == 0:
        return ["unshare", "--net", *command]
    # As ourselves, since PostgreSQL refuses to run as root, be it one without rights outside.
    return ["unshare", "--user", "--map-current-user", "--keep-caps", "--net", *command]


def why_not() -> str | None:
    """Why there can be no namespaces here; None when there can."""
    try:
        probe = inside(["ip", "link", "set", "lo", "up"])
        done = subprocess.run(probe, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError as error:
        return f"there is no {error.filename}"
    return None if done.returncode == 0 else done.stderr.strip()


@dataclass(frozen=True)
class Client:
    """The host that the product runs on."""

    pid: int

    def command(self, *words: object) -> list[str]:
        """One that runs on it."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *map(str, words)]

    def enrich(self, *arguments: object, timeout: float = 240) -> "subprocess.CompletedProcess[str]":
        command = self.command(sys.executable, "-m", "enrich", *arguments)
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False, env={**os.environ, "COLUMNS": "200"}
        )

    def json(self, *arguments: object) -> list[dict[str, Any]]:
        done = self.enrich(*arguments, "--json")
        try:
            return [json.loads(line) for line in done.stdout.splitlines()]
        except ValueError:
            raise AssertionError(f"{done.stdout}\n{done.stderr}") from None


@contextmanager
def silent(address: str) -> Iterator[None]:
    """Inside the block nothing that this address of the servers sends reaches the client."""
    rule = ["from", address, "to", CLIENT, "blackhole"]
    _ip("rule", "add", *rule)
    try:
        yield
    finally:
        _ip("rule", "del", *rule)


@contextmanager
def two_hosts() -> Iterator[Client]:
    """To be called inside: this process is on the servers' host from the start."""
    _ip("link", "set", "lo", "up")
    holder = subprocess.Popen(["unshare", "--net", "sleep", "3600"])
    try:
        namespace = Path(f"/proc/{holder.pid}/ns/net")
        ours = Path("/proc/self/ns/net").readlink()
        end = time.monotonic() + 30
        while namespace.readlink() == ours:  # until `unshare` has made its own
            assert time.monotonic() < end and holder.poll() is None, "there is no second namespace"
            time.sleep(0.01)
        client = Client(holder.pid)
        _ip("link", "add", "servers", "type", "veth", "peer", "name", "client", "netns", str(holder.pid))
        for address in (BROKER, DATABASES):
            _ip("addr", "add", f"{address}/24", "dev", "servers")
        _ip("link", "set", "servers", "up")
        for words in (
            ["link", "set", "lo", "up"],
            ["addr", "add", f"{CLIENT}/24", "dev", "client"],
            ["link", "set", "client", "up"],
        ):
            subprocess.run(client.command("ip", *words), check=True, timeout=30)
        yield client
    finally:
        holder.kill()
        holder.wait()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=30)
