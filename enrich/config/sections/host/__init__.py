"""The sections `agent` and `memory`: the process that keeps a host's tables, and its and its readers' memory."""
