"""What everything may use: errors and their exit codes, logs, processes, folders, addresses, HTTP answers, JSON lines,
Avro schemas as JSON, what a terminal may show.

May import `stores.errors` and nothing else of this project.
"""
