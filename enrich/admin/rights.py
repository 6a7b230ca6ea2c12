"""Which right is missing: brokers only say that one is, we know what we asked for."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from enrich.base.errors import ConfigError, EnrichError

_REFUSED = "authorization failed"


@contextmanager
def needs(right: str, resource: str) -> Iterator[None]:
    """What is done inside takes this right, in Kafka's words; a refusal names it. Raises ConfigError for one."""
    try:
        yield
    except EnrichError as error:
        if _REFUSED not in error.what.lower():
            raise
        raise lacks(right, resource) from error


def grant(rights: Collection[str], kind: str, name: str, *, user: str | None = None, prefixed: bool = False) -> str:
    """The statement by which an administrator gives them."""
    operations = " ".join(f"--operation {right}" for right in rights)
    pattern = " --resource-pattern-type prefixed" if prefixed else ""
    return f"kafka-acls --add --allow-principal User:{user or '...'} {operations} --{kind} {name}{pattern}"


def lacks(right: str, resource: str) -> ConfigError:
    kind, _, name = resource.partition(" ")
    return ConfigError(
        f"this user lacks the right {right} on {resource}",
        where=f"{kind} {name}",
        next_step=f"grant it: {grant([right], kind, name)}",
    )
