"""What everything may use: errors and the exit codes that they become, logs, processes, folders, JSON lines.

It may use `stores.errors` and nothing else of ours.
"""
