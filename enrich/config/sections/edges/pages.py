"""The section `pages`: where the programs at the edges say how they are."""

from enrich.config.types.fields import ListenAddress, Section


class Pages(Section):
    """Where each program answers `/healthz`, `/readyz`, `/metrics` and `/status`, without a login."""

    ingest: ListenAddress = "127.0.0.1:9401"
    """Address of `enrich ingest run`."""
    expel: ListenAddress = "127.0.0.1:9402"
    """Address of `enrich expel run`."""
    retrier: ListenAddress = "127.0.0.1:9403"
    """Address of `enrich retrier run`."""
