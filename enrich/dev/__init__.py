"""The embedded stack: a real Kafka broker and Redis, and on demand PostgreSQL and a schema registry, no containers.

`Stack(directory).up()` starts them and returns their addresses; `temporary_stack()` is one for the length
of a block. Used by the commands `enrich dev` and `enrich demo` and by the tests; never by a program in production.
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
