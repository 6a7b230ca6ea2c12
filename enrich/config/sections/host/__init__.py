"""The sections `agent` and `memory`: the process that keeps a host's tables, and what it and its readers may take."""
