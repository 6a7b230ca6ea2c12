"""What a host's agent asks of the brokers: at a start, with nothing to do, and when a topic is made again. For
docs/scale.md, which multiplies it by hosts.

Counted by a link to the broker that reads the head of each request: an extra hop, so times are not measured here.
"""

import tempfile
import time
from pathlib import Path

from bench.harness import Figures, say
from bench.host.counting_link import CountingLink, Seen
from bench.kit.agents import end_agent, start_agent, wait_until_ready
from bench.kit.metadata import pipeline_of, produce
from enrich.dev import temporary_stack
from enrich.kafka import COMPACTED, Topics, new_admin_client

TABLES = 200
PARTITIONS = 12
ROWS = 1_000
"""In each topic."""
SECONDS = 30
_SETTLE_S = 20


def run() -> Figures:
    with temporary_stack(quiet=True) as stack:
        connection = {"bootstrap.servers": stack.bootstrap_servers}
        topics = Topics(new_admin_client(connection))
        names = [f"load-{number}" for number in range(TABLES)]
        for name in names:
            topics.create(name, partitions=PARTITIONS, config=COMPACTED)
            produce(stack.bootstrap_servers, name, range(ROWS))
        with (
            CountingLink(stack.bootstrap_servers) as link,
            tempfile.TemporaryDirectory(prefix="enrich-bench-") as folder,
        ):
            pipeline = pipeline_of(Path(folder), link.address, *names)

            def start(figure: str) -> Figures:
                say(figure)
                before = link.seen()
                start_agent(pipeline)
                return _of(figure, link.seen() - before)

            figures = {**start("cold")}
            end_agent(pipeline)
            figures |= start("restart")
            say("idle")
            time.sleep(_SETTLE_S)
            before, began = link.seen(), time.monotonic()
            time.sleep(SECONDS)
            idle, seconds = link.seen() - before, time.monotonic() - began
            figures |= {
                "idle_connections": link.connections,
                "idle_requests_per_s": idle.requests / seconds,
                "idle_fetches_per_s": idle.by_key.get(1, 0) / seconds,
                "idle_asked_kib_per_s": idle.asked / seconds / 1024,
                "idle_answered_kib_per_s": idle.answered / seconds / 1024,
            }
            say("a topic is made again")
            before = link.seen()
            topics.delete(names[0])
            topics.create(names[0], partitions=PARTITIONS, config=COMPACTED)
            produce(stack.bootstrap_servers, names[0], range(ROWS))
            time.sleep(_SETTLE_S)
            wait_until_ready(pipeline)
            again, usual = link.seen() - before, figures["idle_requests_per_s"] * _SETTLE_S
            figures["again_more_requests"] = again.requests - usual
            end_agent(pipeline)
    return figures


def _of(figure: str, seen: Seen) -> dict[str, float]:
    return {
        f"{figure}_requests": seen.requests,
        f"{figure}_mib": seen.answered / 2**20,
        f"{figure}_connections": seen.connections,
    }
