"""Ingest's endpoint alone in a process: `python -m bench.ingest_served BOOTSTRAP TOPIC TOKEN` prints its port."""

import asyncio
import sys

import uvloop

from edge_service.ingest.committing import Writer
from edge_service.ingest.endpoint import EndpointPlan, IngestEndpoint
from edge_service.ingest.serving import Serving


async def _serve(bootstrap: str, topic: str, token: str) -> None:
    plan = EndpointPlan("/v1/plays", topic, ("user",), ("ts",), [token], 1 << 20, 8 << 20, 1000, 64 << 20, 5.0, 3.0)
    loop = asyncio.get_running_loop()
    writer = Writer({"bootstrap.servers": bootstrap}, loop, plan.deadline_s)
    port = await Serving(IngestEndpoint(plan, writer, loop), loop).start("127.0.0.1", 0)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(*sys.argv[1:]))
