"""The section `kafka`: brokers, security, registry, and settings of the clients."""
