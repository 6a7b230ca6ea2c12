"""What the store may claim about a table: up to when it is complete, and how far back its history is whole.

The rules are in docs/local-store.md. It may import `ipc`; only `watch` asks the brokers.
"""
