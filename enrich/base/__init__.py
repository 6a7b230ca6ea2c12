"""What everything may use: errors and their exit codes, logs, processes, folders, addresses, JSON lines, HTTP answers that do not end.

May import `stores.errors` and nothing else of this project.
"""
