"""The embedded stack: a real Kafka broker and Redis, on demand also PostgreSQL and a schema registry, no containers.

`Stack(directory).up()` starts them and returns their addresses; `temporary_stack()` is a stack for the duration of a
block. Used by the commands `enrich dev` and `enrich demo` and by tests, never by programs in production.
"""

from enrich.dev.stack import ALWAYS, ON_DEMAND, SERVERS, Addresses, Stack
from enrich.dev.status import Health, ServerStatus
from enrich.dev.temporary import temporary_directory, temporary_stack

__all__ = [
    "ALWAYS",
    "ON_DEMAND",
    "SERVERS",
    "Addresses",
    "Health",
    "ServerStatus",
    "Stack",
    "temporary_directory",
    "temporary_stack",
]
