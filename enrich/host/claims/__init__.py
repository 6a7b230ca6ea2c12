"""What the store may say of a table: up to when it is complete, and how far back its history is whole.

The rule is in docs/local-store.md. It may use `ipc`; `watch` alone asks the brokers.
"""
