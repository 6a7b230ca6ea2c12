"""The command `enrich`: one file a command group, thin. Each calls a room below and renders what it returns.

Modules here import nothing heavy at the top, so that `enrich --help` stays instant: a command imports what it needs
when it runs.
"""
