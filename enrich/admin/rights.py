"""Names the missing right: brokers only say that one is missing, but we know which one the request needs."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from enrich.base.errors import ConfigError, EnrichError

_REFUSED = "authorization failed"


@contextmanager
def needs(right: str, resource: str) -> Iterator[None]:
    """The block needs this right, as Kafka names it. If the brokers refuse it, raises a ConfigError that names it."""
    try:
        yield
    except EnrichError as error:
        if _REFUSED not in error.what.lower():
            raise
        raise lacks(right, resource) from error


def grant(rights: Collection[str], kind: str, name: str, *, user: str | None = None, prefixed: bool = False) -> str:
    """The command by which an administrator grants the rights."""
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
