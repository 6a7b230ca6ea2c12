"""The section `agent`: how long it stays, and where its metrics are."""

from datetime import timedelta
from typing import Annotated

from enrich.config.types.fields import Between, HostAddress, Section
from enrich.config.types.quantities import Duration


class AgentSection(Section):
    """The process that keeps the tables of a host."""

    linger: Duration = timedelta(minutes=15)
    """How long the agent stays after the last executor that needed it has ended."""
    metrics_port: Annotated[int, Between(1, 65535)] | None = None
    """TCP port on which Prometheus reads the agent's metrics; 1 to 65535. The Unix socket `agent.sock` in the store's
    directory always has them."""
    metrics_address: HostAddress = "127.0.0.1"
    """Local address on which that port listens."""
