"""A service that takes events over HTTP as one writes it without us: Starlette, a producer, a future for each record.

It does less: no check of the body but that it is JSON, no bounds, no deadlines.
`python -m bench.edge.plain_service BOOTSTRAP TOPIC TOKEN PORT`
"""

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterable
from typing import Any

import uvicorn
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


class _AsyncProducer:
    """As in the examples of confluent-kafka: a thread polls, and completes futures on the loop."""

    def __init__(self, bootstrap: str) -> None:
        # The same settings as ours: what differs is the service.
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "compression.type": "lz4"}
            | {"linger.ms": 2, "queue.buffering.max.messages": 500_000}
        )
        threading.Thread(target=self._poll, daemon=True).start()

    def _poll(self) -> None:
        while True:
            self._producer.poll(0.1)

    def produce(self, topic: str, value: bytes, key: bytes, time_ms: int) -> "asyncio.Future[None]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                loop.call_soon_threadsafe(future.set_result, None)
            else:
                loop.call_soon_threadsafe(future.set_exception, KafkaException(error))

        headers: dict[str, str | bytes | None] = {"enrich.event_time": str(time_ms).encode()}
        self._producer.produce(topic, value, key, headers=headers, on_delivery=delivered)
        return future


def _application(producer: _AsyncProducer, topic: str, token: str) -> Starlette:
    async def take(request: Request) -> JSONResponse:
        if request.headers.get("authorization") != f"Bearer {token}":
            return JSONResponse({"detail": "unknown token"}, 401)
        try:
            body = await request.json()
        except ValueError:
            return JSONResponse({"detail": "not JSON"}, 400)
        events: Iterable[dict[str, Any]] = body if isinstance(body, list) else [body]
        try:
            sent = [
                producer.produce(topic, json.dumps(event).encode(), event["user"].encode(), event["ts"])
                for event in events
            ]
        except (KeyError, AttributeError):
            return JSONResponse({"detail": "user and ts are needed"}, 422)
        await asyncio.gather(*sent)
        return JSONResponse({"accepted": len(sent)})

    return Starlette(routes=[Route("/v1/plays", take, methods=["POST"])])


def main() -> None:
    bootstrap, topic, token, port = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=1024)
    application = _application(_AsyncProducer(bootstrap), topic, token)
    config = uvicorn.Config(application, loop="uvloop", http="httptools", log_level="warning", access_log=False)
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
