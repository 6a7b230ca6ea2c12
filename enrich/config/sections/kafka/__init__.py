"""The section `kafka`: brokers, security, registry, and what the clients are told."""
