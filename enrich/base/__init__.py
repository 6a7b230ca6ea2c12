"""What everything may use: errors and their exit codes, logs, processes, folders, addresses, HTTP answers, JSON lines,
Avro schemas as JSON, secrets of signatures, back-off, tables of states, what a terminal may show.

May import `stores.errors`, `stores.files` and `stores.backoff`, and nothing else of this project.
"""
