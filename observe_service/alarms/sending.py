"""Posts alarms to the webhook: signed, one after the other, again until it takes them."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from enrich.base.backoff import Backoff
from enrich.base.errors import EnrichError
from enrich.config import Pipeline
from enrich.config.sections.edges.expel import HttpEndpoint
from enrich.endpoints.http import HttpClient, NoAnswer
from enrich.service.signatures import Signer
from observe_service.alarms.board import Alarm, as_json

_log = logging.getLogger("enrich.observe")

GIVE_UP_MS = 86_400_000
_WHERE = "observe.alarms.webhook"


class Webhook:
    """In a thread of its own: the endpoint may take long, or be away for hours."""

    def __init__(self, pipeline: Pipeline, sent: Callable[[Alarm], None]) -> None:
        """Raises ConfigError for an address or a secret that cannot be used."""
        alarms = None if pipeline.observe is None else pipeline.observe.alarms
        if alarms is None or alarms.webhook is None:
            raise ValueError("there is no webhook")
        self._pipeline = pipeline.name
        self._endpoint = HttpEndpoint(url=alarms.webhook, allow_private=alarms.allow_private)
        secrets = [secret.get_secret_value() for secret in alarms.secret or ()]
        self._signer = Signer(secrets, "observe.alarms.secret") if secrets else None
        self._sent = sent
        self._queue: asyncio.Queue[Alarm] = asyncio.Queue(1_000)
        self._loop = asyncio.new_event_loop()
        self.trouble: str | None = None
        HttpClient(self._endpoint, 1, _WHERE)  # raises now what would be raised later
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def send(self, alarm: Alarm) -> None:
        self._loop.call_soon_threadsafe(self._put, alarm)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _put(self, alarm: Alarm) -> None:
        with suppress(asyncio.QueueFull):  # a thousand unsent ones say enough
            self._queue.put_nowait(alarm)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(self._post_all())
        self._loop.run_forever()
        task.cancel()
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(task)
        self._loop.close()

    async def _post_all(self) -> None:
        client = HttpClient(self._endpoint, 1, _WHERE)
        try:
            while True:
                await self._deliver(client, await self._queue.get())
        finally:
            await client.close()

    async def _deliver(self, client: HttpClient, alarm: Alarm) -> None:
        body, backoff = json.dumps(as_json(alarm, self._pipeline)).encode(), Backoff(1.0, 60.0)
        end_s = time.monotonic() + GIVE_UP_MS / 1000
        while time.monotonic() < end_s:
            # Observers of several pipelines may have one webhook.
            message_id = f"{self._pipeline}/{alarm.id}"
            signed = {} if self._signer is None else self._signer.headers(message_id, int(time.time()), body)
            headers = {"content-type": "application/json", **signed}
            try:
                answer = await client.post(body, headers)
            except (NoAnswer, EnrichError) as error:
                self._troubled(str(error))
            else:
                if 200 <= answer.status < 300:
                    self.trouble = None
                    self._sent(alarm)
                    return
                self._troubled(f"it answered {answer.status}")
                if 400 <= answer.status < 500 and answer.status not in (408, 429):
                    _log.error("the webhook refuses an alarm: status %d", answer.status, extra={"alarm": alarm.key})
                    return
            await asyncio.sleep(backoff.next_s())

    def _troubled(self, why: str) -> None:
        if self.trouble is None:
            _log.warning("an alarm cannot be delivered yet: %s", why)
        self.trouble = why
