"""The section `memory`: the budget of the agent and its readers on one host."""

from typing import Annotated

from enrich.config.types.fields import Between, Section
from enrich.config.types.quantities import Size


class Memory(Section):
    """One budget: the agent's share plus the readers' share times their number."""

    budget: Size = 2 * 2**30
    """Memory of the agent and all readers of a host together. At least 390 MiB, and 33 MiB for each reader (how it is
    shared)."""
    max_readers: Annotated[int, Between(1, 1024)] | None = None
    """How many Python workers read on one host at most; 1 to 1024. Default: the host's cores, or as many as the budget
    holds."""
